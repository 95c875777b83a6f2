"""Adds tokens to the vocabulary of a checkpoint and initialises their embeddings."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.tensors import StoredTensor, empty
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError, counted
from bert_keras.text.google_words import google_words
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS
from bert_keras.text.vocab import Vocabulary, is_unused

_NUM_EXAMPLES = 3  # tokens that a note names


def extended(checkpoint: Checkpoint, new_tokens: Sequence[str]) -> Checkpoint:
    """Adds tokens to the WordPiece vocabulary of a checkpoint.

    A new token replaces the first free [unusedN] token; without one, it is appended. All other
    tokens keep their ids. In every table with a row for each token, such as the token embeddings
    and the output bias of the masked LM, the row of a new token is the mean of the rows of the
    subtokens into which the old vocabulary divides it. The training state is left out.

    Args:
        checkpoint: The checkpoint, of any model.
        new_tokens: Words as the tokenizer divides texts, or "##" and the end of such words. Tokens
            that the vocabulary has already are skipped, and a note of the checkpoint states it.

    Raises:
        InputError: The checkpoint has no WordPiece vocabulary. Or a new token is blank, contains
            white space, is given twice or can never occur; or none of them is new.
    """
    vocabulary, metadata = checkpoint.vocabulary, checkpoint.metadata
    if vocabulary is None:
        raise InputError(
            "the checkpoint has no vocabulary to extend; add the vocab.txt that its weights were "
            "trained with"
        )
    if vocabulary.rules:
        raise InputError(
            "the checkpoint has a byte-level BPE or Unigram tokenizer, whose tokens need merges or "
            "scores; expected WordPiece, the only kind of vocabulary that can be extended"
        )
    known = [token for token in new_tokens if token in vocabulary.ids]
    added = [token for token in new_tokens if token not in vocabulary.ids]
    _check(added, lowercase=metadata.lowercase)
    if not added:
        raise InputError("the vocabulary has all new tokens already; expected at least one other")
    unused = [n for n, token in enumerate(vocabulary.tokens) if is_unused(token)][: len(added)]
    size = len(vocabulary) + len(added) - len(unused)
    ids = [*unused, *range(len(vocabulary), size)]
    tokens = dict(enumerate(vocabulary.tokens)) | dict(zip(ids, added, strict=True))
    subtokens = {n: subtoken_ids(token, vocabulary) for n, token in zip(ids, added, strict=True)}
    notes = [f"{counted(len(added), 'new token')}, {len(unused):,} of them instead of [unusedN]"]
    if known:
        notes.append(f"the vocabulary has already {_examples(known)}")
    if unknown := [tokens[n] for n in ids if vocabulary.unk_id in subtokens[n]]:
        notes.append(f"[UNK] is among the former subtokens of {_examples(unknown)}")
    if checkpoint.state is not None:
        notes.append("the training state is left out, because it has no averages of new tokens")
    tensors = dict(checkpoint.tensors)
    for name in _vocabulary_weights(metadata):
        tensors[name] = _extended_table(tensors[name], subtokens, size=size)
    return dataclasses.replace(
        checkpoint,
        metadata=dataclasses.replace(
            metadata, config=dataclasses.replace(metadata.config, vocab_size=size)
        ),
        vocabulary=dataclasses.replace(vocabulary, tokens=tuple(tokens.values())),
        tensors=tensors,
        state=None,
        notes=(*checkpoint.notes, *notes),
    )


def _check(tokens: Sequence[str], *, lowercase: bool) -> None:
    """Raises InputError for a token that WordPiece cannot have or cannot produce."""
    counts = Counter(tokens)
    for token in tokens:
        if len(token.split()) != 1 or token != token.strip():
            raise InputError(
                f"the new token {token!r} is blank or contains white space; write one word on each "
                "line"
            )
        if counts[token] > 1:
            raise InputError(f"the new token {token!r} is given twice; remove one of them")
        # A token that continues a word follows a letter.
        text = f"a{token[2:]}" if token.startswith("##") else token
        words = [word.text for word in google_words(text, lowercase=lowercase)]
        if words != [text] or token == "##" or len(text) > MAX_WORD_CHARACTERS:
            found = f"makes {' '.join(words)[:40]!r} of {text[:40]!r}" if words else "removes it"
            raise InputError(
                f"no text contains the new token {token[:40]!r}: the tokenizer {found}; write the "
                "words that it makes, or leave this token out"
            )


def subtoken_ids(token: str, vocabulary: Vocabulary) -> list[int]:
    """Returns the ids into which WordPiece divides a word, or the rest of a word after "##".

    As in WordpieceTokenizer of google-research/bert `tokenization.py`, each is the longest that
    fits. The result is the id of [UNK] if one of them is not in the vocabulary.
    """
    ids, rest = [], token
    while rest.removeprefix("##"):
        shortest = 3 if rest.startswith("##") else 1
        fits = (n for n in range(len(rest), shortest - 1, -1) if rest[:n] in vocabulary.ids)
        if (length := next(fits, None)) is None:
            return [vocabulary.unk_id]
        ids.append(vocabulary.ids[rest[:length]])
        rest = f"##{rest[length:]}"
    return ids


def _vocabulary_weights(metadata: ModelMetadata) -> list[str]:
    """Returns the names of the weights whose first axis is the vocabulary."""
    config = dataclasses.replace(metadata.config, vocab_size=metadata.config.vocab_size + 1)
    larger = rows(dataclasses.replace(metadata, config=config))
    return [
        old.name for old, new in zip(rows(metadata), larger, strict=True) if old.shape != new.shape
    ]


def _extended_table(
    table: StoredTensor, subtokens: Mapping[int, list[int]], *, size: int
) -> StoredTensor:
    """Returns a table of `size` rows, in which new rows are means of rows of the old table."""

    def read():
        old, new = table.read(), empty((size, *table.shape[1:]))
        new[: len(old)] = old
        for token_id, subtoken_ids in subtokens.items():
            new[token_id] = old[subtoken_ids].mean(axis=0)
        return new

    return StoredTensor((size, *table.shape[1:]), read)


def _examples(tokens: Sequence[str]) -> str:
    """Returns the number of tokens and the first of them."""
    more = ", ..." if len(tokens) > _NUM_EXAMPLES else ""
    return f"{len(tokens):,} of the tokens: {', '.join(tokens[:_NUM_EXAMPLES])}{more}"
