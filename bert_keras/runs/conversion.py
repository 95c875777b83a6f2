"""Converts checkpoints to other formats, and makes parts, students and larger vocabularies."""

import dataclasses
import os
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, weight_part
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.pretrained import LoadReport, build_model, checkpoint_of_model
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError, check_name, counted, listed, quoted, suggest_keyword_names
from bert_keras.families import FAMILIES, family_of
from bert_keras.files import refuse_existing
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.models.replaced_tokens import generator_config
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, google_words
from bert_keras.text.vocab import Vocabulary, is_unused

# Suffixes of the names of weights that have a row for each token
_VOCABULARY_WEIGHTS = ("embeddings/token", "masked_lm/decoder", "masked_lm/output_bias")


@suggest_keyword_names
def convert(  # noqa: PLR0913 - public; each argument is optional
    source: str | os.PathLike,
    destination: str | os.PathLike,
    *,
    format: str = "bert-keras",
    model: str | None = None,
    num_layers: int | None = None,
    new_tokens: Sequence[str] = (),
    ignore: Collection[str] = (),
    pad_vocabulary: bool = False,
) -> str:
    """Loads a model and saves it as a folder of another format.

    `bert-keras convert` calls this function.

    Args:
        source: A checkpoint of any format.
        destination: The folder to write, which must not exist yet or be empty.
        format: "bert-keras", "google", "huggingface" or "sentence-transformers".
        model: The model class to write if it is only a part of the model in `source`, such as the
            BertEncoder of a BertPretrainer; None converts the whole model.
        num_layers: Converts a student with this number of layers; see `student_of`.
        new_tokens: Tokens to add to a WordPiece vocabulary, instead of its [unusedN] tokens and
            then at its end. A new token gets the mean of the embeddings of its former subtokens.
        ignore: Names of tensors, configuration keys and tokenizer rules to ignore. Error messages
            state the name where this is possible.
        pad_vocabulary: Whether to append unused tokens if the embedding matrix has more rows
            than the vocabulary has tokens.

    Returns:
        A load report of the model that was written.

    Raises:
        InputError: An argument is invalid, or the source or the format lacks a part of the model.

    Example:

    ```python
    print(convert("films", "films-huggingface", format="huggingface"))
    ```
    """
    refuse_existing(destination)
    checkpoint = open_checkpoint(source, ignore=ignore, pad_vocabulary=pad_vocabulary)
    if model is not None:
        checkpoint = part_of(checkpoint, model)
    if num_layers is not None:
        checkpoint = student_of(checkpoint, num_layers=num_layers)
    if new_tokens:
        checkpoint = extend_vocabulary(checkpoint, new_tokens)
    metadata = checkpoint.metadata
    check_name(metadata.model, MODELS, what="model")
    built = build_model(MODELS[metadata.model], checkpoint, metadata=metadata, source=source)
    report = cast(LoadReport, built.load_report)
    state, notes = checkpoint.state, checkpoint.notes
    if state is not None and not set(state.momentums) <= set(report.loaded):
        state = None
        notes += ("the training state is left out, because it belongs to a larger model",)
    parts = {"metadata": metadata, "vocabulary": checkpoint.vocabulary, "state": state}
    written = checkpoint_of_model(built, **parts)
    notes += write_checkpoint(written, destination, format=format)
    if checkpoint.vocabulary is None:
        notes += ("the model has no vocabulary, which most commands need",)
    if state is not None and format not in ("bert-keras", "google"):
        notes += (f"{format} cannot store the training state of step {state.step:,}",)
    title = f"{source} -> {destination}: {metadata.model}"
    return str(dataclasses.replace(report, source=title, notes=notes))


def part_of(checkpoint: Checkpoint, model: str) -> Checkpoint:
    """Returns the part for `model`; the BertMaskedLM of replaced-token models is the generator."""
    check_name(model, KINDS, what="model")
    source = checkpoint.metadata
    if (source.model, model) == ("BertReplacedTokenPretrainer", "BertMaskedLM"):
        # The generator shares the embeddings, except for their projection.
        embeddings, projection = "encoder/embeddings/", "encoder/embeddings/projection/"
        tensors = {}
        for name, tensor in checkpoint.tensors.items():
            is_shared = name.startswith(embeddings) and not name.startswith(projection)
            if is_shared or name.startswith("generator/"):
                tensors[name.removeprefix("generator/")] = tensor
        config = generator_config(source.config, source.task["generator_size"])
        metadata = source.of_model(model, keeps_head=False, config=config)
        return dataclasses.replace(checkpoint, metadata=metadata, tensors=tensors)
    parts = {weight_part(name) for name in checkpoint.tensors}
    if absent := set(KINDS[model].heads) - parts:
        lacking = f"the {source.model} has no weights of {', '.join(sorted(absent))}"
        raise InputError(f"{lacking}, which a {model} needs; it has {', '.join(sorted(parts))}")
    kept = {"keeps_head": model == source.model, "text_columns": source.text_columns}
    return dataclasses.replace(checkpoint, metadata=source.of_model(model, **kept))


def student_layers(num_layers: int, *, of: int) -> list[int]:
    """Returns evenly spaced layers of a teacher with layers 0 to `of` - 1.

    Six layers of 12 are 0, 2, 4, 7, 9 and 11, as in DistilBERT.
    """
    if not 1 <= num_layers <= of:
        raise InputError(f"num_layers is {num_layers}; the teacher has {of}")
    return np.linspace(0, of - 1, num_layers).round().astype(int).tolist()


def student_of(teacher: Checkpoint, *, num_layers: int) -> Checkpoint:
    """Builds a student with the layers of `student_layers` and no pooler from a teacher's weights.

    A student of a BERT is a DistilBERT, which has no segment embeddings. The vector of segment 0 is
    therefore added to every position embedding (extract_distilbert.py drops it), so that the
    embeddings of a single text equal the teacher's. Other families keep their segment embeddings.
    """
    metadata, config = teacher.metadata, teacher.metadata.config
    layers = student_layers(num_layers, of=config.num_layers)
    indices = ", ".join(map(str, layers))
    notes = [f"the student has layers {indices} of 0 to {config.num_layers - 1}"]
    tensors = {}
    for name, tensor in teacher.tensors.items():
        match = None if config.shares_layers else re.match(r"encoder/layer_(\d+)/(.*)", name)
        if match is not None:
            layer, weight = int(match[1]), match[2]
            if layer in layers:
                tensors[f"encoder/layer_{layers.index(layer)}/{weight}"] = tensor
        elif weight_part(name) not in ("pooler", "next_sentence"):
            tensors[name] = tensor
    changes = {"num_layers": num_layers, "has_pooler": False}
    if family_of(config) is FAMILIES["bert"]:
        changes |= {"num_segments": 0, "pooler_activation": "relu"}  # as in DistilBERT
        notes.append("the student has no segment embeddings; segment 0 is added to all positions")
        segments_SD = tensors.pop("encoder/embeddings/segment")
        positions_TD = tensors["encoder/embeddings/position"]
        tensors["encoder/embeddings/position"] = StoredTensor(
            positions_TD.shape, lambda: positions_TD.read() + segments_SD.read()[0]
        )
    model, config = metadata.model, dataclasses.replace(config, **changes)
    student = KINDS[model].student or model
    metadata = metadata.of_model(student, keeps_head=student == model, config=config)
    parts = {"metadata": metadata, "tensors": tensors, "notes": (*teacher.notes, *notes)}
    return dataclasses.replace(teacher, **parts, state=None)


def extend_vocabulary(checkpoint: Checkpoint, new_tokens: Sequence[str]) -> Checkpoint:
    """Adds tokens, words or "##" and ends of words, to a checkpoint's WordPiece vocabulary.

    A new token replaces the first free [unusedN] token or is appended. In every table with a row
    for each token, such as the output bias of the masked LM, its row is the mean of the rows of the
    subtokens into which the old vocabulary divides it. The training state is left out.
    """
    vocabulary, metadata = checkpoint.vocabulary, checkpoint.metadata
    if vocabulary is None or vocabulary.rules:
        raise InputError("the checkpoint has no WordPiece vocabulary; others cannot be extended")
    if metadata.lowercase:  # the tokenizer decomposes Hangul
        new_tokens = [unicodedata.normalize("NFD", token) for token in new_tokens]
    known = [token for token in new_tokens if token in vocabulary.ids]
    added = [token for token in new_tokens if token not in vocabulary.ids]
    for token in added:
        # A token that continues a word follows a letter.
        text = f"a{token[2:]}" if token.startswith("##") else token
        words = [word.text for word in google_words(text, lowercase=metadata.lowercase)]
        if words != [text] or token == "##" or len(text) > MAX_WORD_CHARACTERS:
            made = f"the tokenizer makes {quoted(' '.join(words))} of {quoted(text)}"
            raise InputError(f"no text contains the new token {quoted(token)}: {made}")
    unused = [n for n, token in enumerate(vocabulary.tokens) if is_unused(token)][: len(added)]
    old_size = len(vocabulary)
    size = old_size + len(added) - len(unused)
    new_ids = [*unused, *range(old_size, size)]  # the id of each added token
    tokens = dict(enumerate(vocabulary.tokens)) | dict(zip(new_ids, added, strict=True))
    subtokens = {n: subtoken_ids(tokens[n], vocabulary) for n in new_ids}
    notes = [f"{counted(len(added), 'new token')}, {len(unused):,} of them instead of [unusedN]"]
    if known:
        notes.append(f"the vocabulary has already {listed(known, most=3)}")
    if unknown := [tokens[n] for n in new_ids if vocabulary.unk_id in subtokens[n]]:
        notes.append(f"[UNK] is among the former subtokens of {listed(unknown, most=3)}")
    if checkpoint.state is not None:
        notes.append("the training state is left out, because it has no averages of new tokens")
    tensors = dict(checkpoint.tensors)
    for name in tensors:
        if name.endswith(_VOCABULARY_WEIGHTS):
            tensors[name] = _extend_table(tensors[name], subtokens, size=size)
    config = dataclasses.replace(metadata.config, vocab_size=size)
    return dataclasses.replace(
        checkpoint,
        metadata=dataclasses.replace(metadata, config=config),
        vocabulary=dataclasses.replace(vocabulary, tokens=tuple(tokens.values())),
        tensors=tensors,
        state=None,
        notes=(*checkpoint.notes, *notes),
    )


def subtoken_ids(token: str, vocabulary: Vocabulary) -> list[int]:
    """Returns the ids of the longest subtokens of a new token, or [UNK], as Google's WordPiece.

    The token is a word, or the rest of a word after "##".
    """
    ids, rest = [], token
    while rest.removeprefix("##"):
        length = len(rest)
        while rest[:length] not in vocabulary.ids:
            length -= 1
            if rest[:length] in ("", "##"):
                return [vocabulary.unk_id]
        ids.append(vocabulary.ids[rest[:length]])
        rest = f"##{rest[length:]}"
    return ids


def _extend_table(
    table: StoredTensor, subtokens: Mapping[int, list[int]], *, size: int
) -> StoredTensor:
    """Returns a table of `size` rows, in which new rows are means of rows of the old table."""
    shape = (size, *table.shape[1:])

    def read_extended() -> np.ndarray:
        old, new = table.read(), np.empty(shape, np.float32)
        new[: len(old)] = old
        for token_id, old_ids in subtokens.items():
            new[token_id] = old[old_ids].mean(axis=0)
        return new

    return StoredTensor(shape, read_extended)
