"""Reads the texts of a prepared TensorFlow dataset in parts of its splits.

A dataset is named by `tfds:NAME[/CONFIG][:VERSION][?split=SPLIT]`, as in
`tfds:wikipedia/20230601.en`, or by `tfds:FOLDER` of a prepared dataset. Splits have the syntax of
TFDS, such as `train[:10%]`.
"""

import os
from collections.abc import Iterator
from typing import Any

from bert_keras.errors import InputError, import_tensorflow
from bert_keras.files import is_remote
from tfrecords_tools.inputs import corpus_files
from tfrecords_tools.inputs.decoding import Decoder, Repairs
from tfrecords_tools.inputs.parts import FilePart

_PARTS_OF_SHARD = 8  # at most, because a part reads and skips the preceding examples of its shard
_BATCH = 64  # examples


def example_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent examples, each of up to `unit_bytes` in storage."""
    builder, split = _builder_and_split(path)
    _expect_text(path, builder, text_field)
    name = _full_name(path, builder)
    for instruction in _slices(path, builder, split):
        info = builder.info.splits[instruction.splitname]
        split_path = f"{name}?split={instruction.splitname}"
        last = info.num_examples if instruction.to is None else instruction.to
        mean = info.num_bytes / max(1, info.num_examples)
        shard_end = 0
        for shard in info.shard_lengths:
            shard_start, shard_end = shard_end, shard_end + shard
            step = max(1, int(unit_bytes / max(1, mean)), -(-shard // _PARTS_OF_SHARD))
            for start in range(shard_start, shard_end, step):
                first = max(start, instruction.from_ or 0)
                end = min(start + step, shard_end, last)
                if first < end:
                    size = max(1, round(mean * (end - first)))
                    yield FilePart(split_path, "tfds", first, end, size, text_field)


def examples(part: FilePart, *, repairs: Repairs, errors: str) -> Iterator[list[str]]:
    """Reads examples: the text of each is a document; blank lines do not end it."""
    builder, split = _builder_and_split(part.path)
    import tensorflow_datasets as tfds

    texts = builder.as_dataset(
        split=tfds.core.ReadInstruction(split, from_=part.start, to=part.end, unit="abs"),
        decoders=tfds.decode.PartialDecoding({part.text_field: True}),
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )
    decoder = Decoder(part.path, repairs, errors, noun="example")
    number = part.start + 1
    for batch in texts.map(lambda example: example[part.text_field]).batch(_BATCH):
        for text in batch.numpy():
            yield from decoder.document(text, number)
            number += 1


def fingerprint(path: str) -> dict:
    """Returns `path`, the `bytes` of the split's files, and their latest `modified` time (ns)."""
    builder, split = _builder_and_split(path)
    files = builder.info.splits[split].filepaths
    fingerprints = [corpus_files.fingerprint(str(file)) for file in files]
    return {
        "path": path,
        "bytes": sum(each["bytes"] for each in fingerprints),
        "modified": max(each["modified"] for each in fingerprints),
    }


def digest(path: str) -> dict:
    """Returns `path`, `bytes`, `sha256` and `examples` of a split.

    `sha256` is the digest of the description by TFDS: name, version, shards, lengths and sizes. The
    examples are not read, because TFDS never changes a version.
    """
    builder, split = _builder_and_split(path)
    info = builder.info.splits[split]
    description = corpus_files.digest(os.path.join(builder.data_dir, "dataset_info.json"))
    return {
        "path": f"{_full_name(path, builder)}?split={split}",
        "bytes": fingerprint(path)["bytes"],
        "sha256": description["sha256"],
        "examples": info.num_examples,
    }


def _builder_and_split(path: str) -> tuple[Any, str]:
    """Returns the builder of a prepared dataset and the named split."""
    import_tensorflow()
    import tensorflow_datasets as tfds

    name, _, query = path.removeprefix(corpus_files.TFDS).partition("?")
    option, _, split = query.partition("=")
    if query and (option != "split" or not split):
        raise InputError(f"{path} is not the name of a dataset; expected tfds:{name}?split=SPLIT")
    try:
        if _is_folder(name):
            builder = tfds.builder_from_directory(name)
        else:
            builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    except (ValueError, AssertionError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"{path} is not known to TFDS ({reason}); expected tfds:NAME/CONFIG:VERSION with "
            "TFDS_DATA_DIR set, or tfds:FOLDER of a prepared dataset"
        ) from error
    if not builder.info.splits:
        raise InputError(
            f"{path} is not prepared in {builder.data_dir}; run python -c "
            f'"import tensorflow_datasets as tfds; tfds.builder({name!r}).download_and_prepare()", '
            "or set TFDS_DATA_DIR to the folder that contains it"
        )
    if not split and len(builder.info.splits) > 1:
        names = ", ".join(builder.info.splits)
        raise InputError(f"{path} has the splits {names}; name one: tfds:{name}?split=SPLIT")
    return builder, split or next(iter(builder.info.splits))


def _is_folder(name: str) -> bool:
    return is_remote(name) or os.path.isfile(os.path.join(name, "dataset_info.json"))


def _full_name(path: str, builder) -> str:
    """Returns the name with config and version, so that every job opens the same dataset."""
    name = path.removeprefix(corpus_files.TFDS).partition("?")[0]
    if not _is_folder(name):
        name = ":".join(builder.info.full_name.rsplit("/", 1))
    return f"{corpus_files.TFDS}{name}"


def _slices(path: str, builder, split: str) -> list:
    """Resolves `split` to ranges of examples of named splits."""
    import tensorflow_datasets as tfds

    try:
        return tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits)
    except (ValueError, AssertionError, KeyError) as error:
        names = ", ".join(builder.info.splits)
        raise InputError(
            f"{path} has no split {split}; expected one of {names}, or a part of one, such as "
            "train[:10%]"
        ) from error


def _expect_text(path: str, builder, text_field: str) -> None:
    features = dict(builder.info.features or {})
    if text_field not in features:
        raise InputError(
            f'{path} has no feature "{text_field}", only {", ".join(sorted(features))}; name the '
            "feature of the text with --text-field"
        )
    feature = features[text_field]
    if feature.shape != () or feature.tf_dtype.name != "string":
        raise InputError(f'{path}: the feature "{text_field}" contains {feature}, not text')
