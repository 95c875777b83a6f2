"""Reads the text of the rows of a parquet file, in parts of whole row groups."""

import contextlib
from collections.abc import Iterator

from bert_keras.errors import check
from bert_keras.files import open_file
from tfrecords_tools.inputs.decoding import Decoder, FilePart, grouped

_BUFFER = 1 << 20  # bytes; limits the memory for a column
_BATCH = 16  # rows that are decoded at once


def row_group_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent row groups, each of up to `unit_bytes` of text in storage."""
    with _open_table(path) as table:
        metadata, names = table.metadata, table.schema_arrow.names
        check(
            text_field in names,
            f'{path} has no column "{text_field}", only {", ".join(names)}; name the column of the '
            "text with --text-field",
        )
        columns = [table.schema.column(number).path for number in range(len(table.schema))]
        column = next(n for n, path in enumerate(columns) if path.split(".")[0] == text_field)
        groups = range(metadata.num_row_groups)
        sizes = [metadata.row_group(n).column(column).total_compressed_size for n in groups]
    for group in grouped(groups, size_of=sizes.__getitem__, most=unit_bytes):
        start, end = group[0], group[-1] + 1
        yield FilePart(path, "parquet", start, end, sum(sizes[start:end]), text_field)


def rows(part: FilePart, decoder: Decoder) -> Iterator[str]:
    """Reads rows: the text of each is a document; blank lines do not end it."""
    import pyarrow as pa

    with _open_table(part.path) as table:
        metadata = table.metadata
        number = 1 + sum(metadata.row_group(n).num_rows for n in range(part.start))
        for batch in table.iter_batches(
            batch_size=_BATCH,
            row_groups=range(part.start, part.end),
            columns=[part.text_field],
            use_threads=False,
        ):
            for text in batch.column(0).cast(pa.large_binary()).to_pylist():
                yield from decoder.document(text or b"", number)
                number += 1


@contextlib.contextmanager
def _open_table(path: str) -> Iterator:
    from pyarrow.parquet import ParquetFile

    with (
        open_file(path) as file,
        ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False) as table,
    ):
        yield table
