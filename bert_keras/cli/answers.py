"""Predicts for texts on the command line, and prints the answers."""

from collections.abc import Sequence
from pathlib import Path

from bert_keras.checkpoints import native
from bert_keras.checkpoints.formats import detect_format
from bert_keras.checkpoints.hub import locate
from bert_keras.errors import InputError
from bert_keras.kinds.kind import Asked, Kind
from bert_keras.kinds.known import KINDS
from bert_keras.serving.version_folder import METADATA, next_version


def ask_model(name: str, texts: Sequence[str]) -> tuple[type[Kind], Asked]:
    """Returns the kind of a model, and its answer for each text, pair or question."""
    if is_exported(name):
        from bert_keras.serving.litert import load_exported

        exported = load_exported(name)
        kind, num_columns = type(exported.kind), len(exported.metadata.text_columns)
        columns = _text_columns(kind, texts, num_columns=num_columns, source=name)
        return kind, kind.ask(exported, columns)
    from bert_keras.checkpoints.checkpoint import require_vocabulary
    from bert_keras.models.loading import load_model

    model = load_model(name)
    tokenizer = require_vocabulary(model.tokenizer, source=name)
    num_columns = len(model.stored_metadata(tokenizer).text_columns)
    columns = _text_columns(model.kind, texts, num_columns=num_columns, source=name)
    return model.kind, model.kind.ask(model, columns)


def is_exported(name: str) -> bool:
    """Returns whether `name` is a version folder of an export, or the folder of all versions."""
    folders = (Path(name), Path(name, str(next_version(name) - 1)))
    return any((folder / METADATA).is_file() for folder in folders)


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Raises the errors of `ask_model` that need no Keras, if the files name the model class."""
    folder = locate(name)
    if detect_format(folder) is native:
        metadata = native.read_metadata(folder)
        kind = KINDS.get(metadata.model, Kind)
        _text_columns(kind, texts, num_columns=len(metadata.text_columns), source=name)
    elif (folder / "1_Pooling").is_dir():  # a model of sentence-transformers
        _text_columns(KINDS["BertSentenceEncoder"], texts, num_columns=0, source=name)


def _text_columns(
    kind: type[Kind], texts: Sequence[str], *, num_columns: int, source: str
) -> tuple[list[str], ...]:
    if not kind.answers_texts:
        raise InputError(f"{source} is a {kind.model}, which predicts nothing; fine-tune it")
    return kind.columns_of_words(texts, num_columns=num_columns, source=source)


def answer_lines(kind: type[Kind], answers: Asked) -> list[str]:
    """Returns a readable line for each answer, or for each entity or mask of it."""
    pairs = [(line, asked) for asked, answer in answers for line in kind.lines(answer)]
    return [line if len(answers) == 1 else f"{line}    {asked}" for line, asked in pairs]
