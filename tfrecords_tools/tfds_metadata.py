"""Describes a folder of records to TensorFlow Datasets (TFDS), which reads it as a data set."""

import json
from collections.abc import Mapping
from typing import Any

from bert_keras.data.schema import PretrainingSchema, feature_dtype

NAME, VERSION = "bert_records", "1.0.0"  # TFDS does not compare them with the path of the folder


def tfds_metadata(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Returns the files from which `tfds.builder_from_directory` creates the builder of a folder.

    They have the format of `tfds.folder_dataset.write_metadata`, which is not called because
    importing TFDS takes longer than a small build.

    Args:
        manifest: The manifest of the folder.

    Returns:
        The texts of `features.json` (names, shapes and dtypes of the features of a record) and of
        `dataset_info.json` (splits, and the number of records of each shard), by file name.
    """
    schema = PretrainingSchema(**manifest["schema"])
    features = {
        name: {
            "pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor",
            "tensor": {
                "shape": {"dimensions": [str(length)]},
                "dtype": feature_dtype(name),
                "encoding": "none",
            },
        }
        for name, length in schema.lengths.items()
    }
    splits = [
        {
            "name": name,
            "filepathTemplate": "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
            "shardLengths": [str(shard["records"]) for shard in split["shards"]],
            "numBytes": str(sum(shard["bytes"] for shard in split["shards"])),
        }
        for name, split in manifest["splits"].items()
    ]
    files = {
        "features.json": {
            "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
            "featuresDict": {"features": features},
        },
        "dataset_info.json": {
            "name": NAME,
            "version": VERSION,
            "description": f"Pretraining records of {schema}.",
            "fileFormat": "tfrecord",
            "splits": splits,
        },
    }
    return {name: json.dumps(values, indent=2) + "\n" for name, values in files.items()}
