"""Folders of records are data sets of TensorFlow Datasets: fields, splits, statistics, training."""

import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from bert_keras import BertAdamW, BertConfig, BertPretrainer
from bert_keras.data.objectives import masked_and_labelled
from bert_keras.data.schema import schema_of
from bert_keras.training.losses import pretraining_losses
from tfrecords_tools.build import build
from tfrecords_tools.inspect.verify import parsed_batches
from tfrecords_tools.settings import BuildSettings, GoogleSettings

SMALL = {"max_length": 40, "max_predictions": 6, "duplicates": 2, "shards": 2}
KINDS = {
    "pairs": BuildSettings(**SMALL, held_out_rate=0.3),
    "several in a record": BuildSettings(**SMALL, objective="sop", sequences_per_record=3),
    "plain ids": BuildSettings(max_length=40, max_predictions=0, objective="full-sentences"),
    "google": GoogleSettings(**SMALL),
}
IN_ORDER = tfds.ReadConfig(interleave_cycle_length=1)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_the_examples_are_the_records(corpus, vocabulary, tmp_path, settings):
    folder = tmp_path / "records"
    manifest = build(corpus, vocabulary=vocabulary, output=folder, settings=settings)
    builder = tfds.builder_from_directory(folder)
    assert set(builder.info.splits) == manifest["splits"].keys()
    for name, split in manifest["splits"].items():
        files = [folder / shard["file"] for shard in split["shards"]]
        info = builder.info.splits[name]
        assert list(map(str, info.filepaths)) == list(map(str, files))
        assert info.shard_lengths == [shard["records"] for shard in split["shards"]]
        assert info.num_bytes == sum(file.stat().st_size for file in files)
        schema = schema_of(files[0])
        expected = [each for file in files for each in parsed_batches(str(file), schema=schema)]
        examples = builder.as_dataset(split=name, read_config=IN_ORDER).batch(len(expected[0]))
        batches = list(examples.as_numpy_iterator())
        assert batches[0].keys() == schema.lengths.keys()
        for feature, length in schema.lengths.items():
            values = np.concatenate([batch[feature] for batch in batches])
            records = np.concatenate([batch[feature] for batch in expected])
            assert values.dtype == records.dtype and values.shape == (split["records"], length)
            np.testing.assert_array_equal(values, records)


def test_the_files_are_those_that_tfds_writes(corpus, vocabulary, tmp_path):
    folder, copy = tmp_path / "records", tmp_path / "copy"
    build(corpus, vocabulary=vocabulary, output=folder, settings=KINDS["pairs"])
    copy.mkdir()
    tfds.builder_from_directory(folder).info.write_to_directory(copy)
    for name in ("features.json", "dataset_info.json"):
        ours, theirs = (json.loads((each / name).read_text()) for each in (folder, copy))
        assert ours.items() <= theirs.items()  # TFDS adds the class of its builder


def test_a_model_trains_on_what_tfds_loads(corpus, vocabulary, tmp_path):
    """The folder DATA_DIR/NAME/VERSION is loaded by its name."""
    folder = tmp_path / "books" / "1.0.0"
    build(corpus, vocabulary=vocabulary, output=folder, settings=KINDS["pairs"])
    examples = tfds.load("books", data_dir=tmp_path, split="train", read_config=IN_ORDER)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_layers=1, num_heads=1, max_positions=40
    )
    model = BertPretrainer(config)
    model.compile(BertAdamW(1e-3), loss=pretraining_losses())
    batches = examples.batch(8).map(masked_and_labelled)
    history = model.fit(batches.take(1), shuffle=False).history
    assert np.isfinite(history["loss"]) and model.optimizer.iterations == 1
