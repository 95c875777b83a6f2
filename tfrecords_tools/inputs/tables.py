"""Reads the texts of parquet files and of prepared TensorFlow datasets (TFDS) in parts.

A dataset is named by `tfds:NAME[/CONFIG][:VERSION][?split=SPLIT]`, as in
`tfds:wikipedia/20230601.en`, or by `tfds:FOLDER` of a prepared dataset. Splits have the syntax of
TFDS, such as `train[:10%]`.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from bert_keras.errors import InputError, check, require
from bert_keras.files import is_remote, open_file
from tfrecords_tools.inputs.text_files import FilePart, document, grouped

TFDS = "tfds:"  # prefix of the name of a dataset
_PARTS_OF_SHARD = 8  # at most, because a part reads and skips the preceding examples of its shard
_EXAMPLES = 64  # that are decoded at once
_BUFFER = 1 << 20  # bytes; limits the memory for a column of a parquet file
_ROWS = 16  # that are decoded at once


def row_group_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent row groups, each of up to `unit_bytes` of text in storage."""
    with _open_table(path) as table:
        metadata, names = table.metadata, table.schema_arrow.names
        check(
            text_field in names,
            f'{path} has no column "{text_field}", only {", ".join(names)}; name the column of the '
            "text: text_field=NAME (--text-field)",
        )
        columns = [table.schema.column(number).path for number in range(len(table.schema))]
        column = next(n for n, path in enumerate(columns) if path.split(".")[0] == text_field)
        groups = range(metadata.num_row_groups)
        sizes = [metadata.row_group(n).column(column).total_compressed_size for n in groups]
    for group in grouped(groups, size_of=sizes.__getitem__, most=unit_bytes):
        start, end = group[0], group[-1] + 1
        yield FilePart(path, "parquet", start, end, sum(sizes[start:end]), text_field)


def rows(part: FilePart) -> Iterator[str]:
    """Reads rows: the text of each is a document; blank lines do not end it."""
    import pyarrow as pa

    with _open_table(part.path) as table:
        metadata = table.metadata
        number = 1 + sum(metadata.row_group(n).num_rows for n in range(part.start))
        for batch in table.iter_batches(
            batch_size=_ROWS,
            row_groups=range(part.start, part.end),
            columns=[part.text_field],
            use_threads=False,
        ):
            for text in batch.column(0).cast(pa.large_binary()).to_pylist():
                yield from document(text or b"", part, number)
                number += 1


@contextlib.contextmanager
def _open_table(path: str) -> Iterator:
    from pyarrow.parquet import ParquetFile

    with open_file(path) as file, ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as table:
        yield table


def example_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent examples, each of up to `unit_bytes` in storage."""
    import tensorflow_datasets as tfds

    builder, split = _builder_and_split(path)
    features = sorted(builder.info.features or ())
    check(
        text_field in features,
        f'{path} has no feature "{text_field}", only {", ".join(features)}; name the feature of '
        "the text: text_field=NAME (--text-field)",
    )
    for part in tfds.core.ReadInstruction.from_spec(split).to_absolute(builder.info.splits):
        info = builder.info.splits[part.splitname]
        split_path = f"{path.partition('?')[0]}?split={part.splitname}"
        last = info.num_examples if part.to is None else part.to
        mean = info.num_bytes / max(1, info.num_examples)
        shard_end = 0
        for shard in info.shard_lengths:
            shard_start, shard_end = shard_end, shard_end + shard
            step = max(1, int(unit_bytes / max(1, mean)), -(-shard // _PARTS_OF_SHARD))
            for start in range(shard_start, shard_end, step):
                first = max(start, part.from_ or 0)
                end = min(start + step, shard_end, last)
                if first < end:
                    size = max(1, round(mean * (end - first)))
                    yield FilePart(split_path, "tfds", first, end, size, text_field)


def examples(part: FilePart) -> Iterator[str]:
    """Reads examples: the text of each is a document; blank lines do not end it."""
    builder, split = _builder_and_split(part.path)
    import tensorflow_datasets as tfds

    texts = builder.as_dataset(
        split=tfds.core.ReadInstruction(split, from_=part.start, to=part.end, unit="abs"),
        decoders=tfds.decode.PartialDecoding({part.text_field: True}),
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )
    number = part.start + 1
    for batch in texts.map(lambda example: example[part.text_field]).batch(_EXAMPLES):
        for text in batch.numpy():
            yield from document(text, part, number)
            number += 1


def split_files(path: str) -> tuple[str, list[str]]:
    """Returns TFDS' description of a data set, which stands for its examples, and the files."""
    builder, split = _builder_and_split(path)
    description = os.path.join(builder.data_dir, "dataset_info.json")
    return description, list(map(str, builder.info.splits[split].filepaths))


def _builder_and_split(path: str) -> tuple[Any, str]:
    """Returns the builder of a prepared dataset and the named split."""
    require("tensorflow", what=path)
    import tensorflow_datasets as tfds

    match = re.fullmatch(rf"{TFDS}([^?]+)(?:\?split=(.+))?", path)
    if match is None:
        raise InputError(f"{path} is not the name of a dataset; expected tfds:NAME?split=SPLIT")
    name, split = match.groups()
    if is_remote(name) or os.path.isfile(os.path.join(name, "dataset_info.json")):
        builder = tfds.builder_from_directory(name)
    else:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    splits = builder.info.splits
    check(
        splits,
        f"{path} is not prepared in {builder.data_dir}; prepare it with download_and_prepare(), or "
        "set TFDS_DATA_DIR to the folder that contains it",
    )
    found = f"{path} has the splits {', '.join(splits)}"
    check(split or len(splits) == 1, f"{found}; name one: tfds:{name}?split=SPLIT")
    return builder, split or next(iter(splits))
