"""Reads the text of the rows of a parquet file, in parts of whole row groups."""

import contextlib
from collections.abc import Iterator

from bert_keras.errors import InputError
from bert_keras.files import open_file
from tfrecords_tools.inputs.decoding import Decoder, Repairs
from tfrecords_tools.inputs.parts import FilePart, grouped

_BUFFER = 1 << 20  # bytes; limits the memory for a column
_BATCH = 1 << 20  # bytes of text decoded at once, about ...
_MOST_ROWS = 128  # ... of rows like most; where texts repeat, they are stored once and look small


def row_group_parts(path: str, *, unit_bytes: int, text_field: str) -> Iterator[FilePart]:
    """Yields parts of adjacent row groups, each of up to `unit_bytes` of text in storage.

    Raises:
        InputError: The file is damaged or has no text column `text_field`.
    """
    with _parquet_file(path) as file:
        column = _text_column(path, file, text_field)
        metadata = file.metadata
        sizes = [
            metadata.row_group(number).column(column).total_compressed_size
            for number in range(metadata.num_row_groups)
        ]
    if not sizes:
        yield FilePart(path, "parquet", 0, 0, 0, text_field)
    for group in grouped(range(len(sizes)), size_of=sizes.__getitem__, most=unit_bytes):
        start, end = group[0], group[-1] + 1
        yield FilePart(path, "parquet", start, end, sum(sizes[start:end]), text_field)


def rows(part: FilePart, *, repairs: Repairs, errors: str) -> Iterator[list[str]]:
    """Reads rows: the text of each is a document; blank lines do not end it."""
    import pyarrow as pa

    decoder = Decoder(part.path, repairs, errors, noun="row")
    with _parquet_file(part.path) as file:
        groups = [file.metadata.row_group(number) for number in range(part.end)]
        number = 1 + sum(group.num_rows for group in groups[: part.start])
        num_rows = max(1, sum(group.num_rows for group in groups[part.start :]))
        column = _text_column(part.path, file, part.text_field)
        num_bytes = sum(
            group.column(column).total_uncompressed_size for group in groups[part.start :]
        )
        for batch in file.iter_batches(
            batch_size=max(1, min(_MOST_ROWS, _BATCH * num_rows // max(1, num_bytes))),
            row_groups=range(part.start, part.end),
            columns=[part.text_field],
            use_threads=False,
        ):
            texts = batch.column(0)
            if pa.types.is_dictionary(texts.type):
                texts = texts.dictionary_decode()
            for text in texts.cast(pa.large_binary()).to_pylist():
                yield from decoder.document(text or b"", number)
                number += 1


@contextlib.contextmanager
def _parquet_file(path: str) -> Iterator:
    """Opens a file with pyarrow; raises InputError if pyarrow cannot read it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        with (
            open_file(path) as file,
            parquet.ParquetFile(
                file, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
            ) as table,
        ):
            yield table
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{path} is damaged or truncated ({error}); download it again") from error


def _text_column(path: str, file, text_field: str) -> int:
    """Returns the index of the text column in the file."""
    import pyarrow as pa

    schema = file.schema_arrow
    if schema.names.count(text_field) != 1:
        raise InputError(
            f'{path} has no column "{text_field}", only {", ".join(schema.names)}; name the '
            "column of the text with --text-field"
        )
    kind = schema.field(text_field).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_text = "string" in str(kind) or "binary" in str(kind)
    if pa.types.is_nested(kind) or not is_text:
        raise InputError(f'{path}: the column "{text_field}" contains {kind}, not text')
    columns = [file.schema.column(number).path for number in range(len(file.schema))]
    return columns.index(text_field)
