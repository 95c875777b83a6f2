"""Compares the vectors of a word in several sentences, layer by layer."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from keras import ops
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from bert_keras.errors import InputError, counted
from bert_keras.files import text_lines
from bert_keras.models.encoder import BertEncoder
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer, TokenizedText

MAX_OCCURRENCES = 100  # a larger table is unreadable


class Occurrence(NamedTuple):
    """An occurrence of the word in a line of the file."""

    line: int  # number of the line, from 1
    text: str  # the line
    tokenized: TokenizedText  # the tokens of the line
    first: int  # index of the word's first token
    end: int  # index after the word's last token

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before the word, the word, and the text after it."""
        (start, _), (_, stop) = (
            self.tokenized.offsets[self.first],
            self.tokenized.offsets[self.end - 1],
        )
        return self.text[:start], self.text[start:stop], self.text[stop:]

    def is_whole_word(self, *, has_rules: bool) -> bool:
        """Returns whether the occurrence is a whole word and not part of a longer one.

        Args:
            has_rules: Whether the vocabulary has the rules of a tokenizer.json. If not, "##" marks
                the continuation of a word.
        """
        if not has_rules:
            return not "".join(self.tokenized.tokens[self.end : self.end + 1]).startswith("##")
        before, _, after = self.parts
        return not (before[-1:].isalnum() or after[:1].isalnum())


def neighbours(
    encoder: BertEncoder,
    tokenizer: TextTokenizer,
    *,
    word: str,
    sentences: str | os.PathLike,
    max_length: int,
) -> dict:
    """Compares the M vectors of a word in the lines of a file; a vector is the mean over its
    tokens.

    Returns:
        `occurrences`, the `line` of each occurrence and the text `before`, `word` and `after`;
        `cosines` [L + 1, M, M] of the embeddings and of each block; `orders` [L + 1, M], which put
        similar vectors next to each other.

    Raises:
        InputError: A line lacks the word or is too long, or the word occurs only once or too often.
    """
    occurrences = list(_occurrences(sentences, tokenizer, word=word, max_length=max_length))
    if not 2 <= len(occurrences) <= MAX_OCCURRENCES:
        raise InputError(
            f"{word!r} occurs in {sentences} {counted(len(occurrences), 'time')}; expected 2 to "
            f"{MAX_OCCURRENCES}"
        )
    vectors_MLD = []
    for each in occurrences:
        ids = each.tokenized.ids
        inputs = pack([ids], vocabulary=tokenizer.vocabulary, max_length=len(ids) + 2)
        words_LKD = [  # position 0 is [CLS]
            ops.convert_to_numpy(states)[0, each.first + 1 : each.end + 1]
            for states in encoder.states(inputs).hidden_states
        ]
        vectors_MLD.append(np.stack(words_LKD).mean(axis=1))
    vectors_LMD = np.stack(vectors_MLD, axis=1)
    vectors_LMD /= np.linalg.norm(vectors_LMD, axis=-1, keepdims=True)
    cosines_LMM = np.clip(np.einsum("lad,lbd->lab", vectors_LMD, vectors_LMD), -1, 1)
    names = ("before", "word", "after")
    return {
        "word": word,
        "num_tokens": max(each.end - each.first for each in occurrences),
        "occurrences": [
            {"line": each.line} | dict(zip(names, each.parts, strict=True)) for each in occurrences
        ],
        "cosines": np.round(cosines_LMM.astype(float), 4).tolist(),
        "orders": [similarity_order(each) for each in cosines_LMM],
    }


def _occurrences(
    path: str | os.PathLike, tokenizer: TextTokenizer, *, word: str, max_length: int
) -> Iterator[Occurrence]:
    # Byte-level BPE has different tokens for a word after a space.
    words = tokenizer.ids_batch([word.strip(), f" {word.strip()}"])
    if not words[0] or tokenizer.vocabulary.unk_id in words[0]:
        raise InputError(f"the vocabulary has no tokens for {word!r}; choose another word")
    words = words[:1] if words[0] == words[1] else words
    for line, text in enumerate(text_lines(path), start=1):
        tokenized = tokenizer.encode(text)
        if len(tokenized.ids) > max_length - 2:
            raise InputError(
                f"{path}, line {line} has {len(tokenized.ids)} tokens; expected at most "
                f"{max_length - 2}, the limit of the model"
            )
        occurrences = [
            Occurrence(line, text, tokenized, first, first + len(ids))
            for first in range(len(tokenized.ids))
            for ids in words
            if tokenized.ids[first : first + len(ids)] == ids
        ]
        has_rules = bool(tokenizer.vocabulary.rules)
        occurrences = [each for each in occurrences if each.is_whole_word(has_rules=has_rules)]
        if not occurrences:
            raise InputError(
                f"{path}, line {line} does not contain {word!r}; expected it in every line"
            )
        yield from occurrences


def similarity_order(cosines_MM: np.ndarray) -> list[int]:
    """Returns an order of M vectors that puts similar ones next to each other.

    The order is that of the leaves of a tree from average-linkage clustering.

    Args:
        cosines_MM: The cosines of the vectors.
    """
    distances = squareform(1 - cosines_MM, checks=False)
    return leaves_list(linkage(distances, "average", optimal_ordering=True)).tolist()
