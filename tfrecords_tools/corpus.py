"""Text files come in; documents, each a list of lines, go out one after the other."""

import os
from collections.abc import Iterable, Iterator

from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.storage import existing_file, text_lines


def lines(files: Iterable[str | os.PathLike], *, stage: str) -> Iterator[str]:
    """Every line, stripped, behind a progress bar of bytes; "" stands between documents.

    A blank line ends a document, and so does the end of a file (in the original it does not).
    Raises InputError for a missing file, for bytes that are not UTF-8, and for a corpus without
    text.
    """
    paths = [existing_file(path) for path in files]
    total = sum(path.stat().st_size for path in paths)
    found = False
    with progress(stage=stage, unit="B", total=total) as bar:
        for path in paths:
            for line in text_lines(path):
                bar.update(
                    min(len(line.encode()) + 1, total - bar.n)
                )  # a file may lack its last "\n"
                line = line.strip()
                found = found or bool(line)
                yield line
            yield ""
    if not found:
        names = ", ".join(map(str, paths)) or "no files"
        raise InputError(f"the corpus holds no text ({names}); expected one paragraph a line")


def documents(files: Iterable[str | os.PathLike], *, stage: str) -> Iterator[list[str]]:
    """The lines of each document that has any."""
    document: list[str] = []
    for line in lines(files, stage=stage):
        if line:
            document.append(line)
        elif document:
            yield document
            document = []
