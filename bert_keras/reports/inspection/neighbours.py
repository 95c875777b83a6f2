"""Compares the vectors of a word in several sentences, layer by layer."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.reports.inspection.attention import first_rows
from bert_keras.storage import text_lines
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer, TokenizedText

MOST_PLACES = 100  # of a table that can be read


class Sentence(NamedTuple):
    """A line of the file that has the word."""

    line: int  # from 1
    text: str
    read: TokenizedText
    places: list[tuple[int, int]]  # first token of the word and the one after its last, each time


def neighbours(
    encoder: BertEncoder,
    tokenizer: TextTokenizer,
    *,
    word: str,
    sentences: str | os.PathLike,
    max_length: int,
) -> dict:
    """Compares the M vectors of a word, means over its tokens, in the lines of a file.

    Returns:
        `places`, for each occurrence its `line` and the text `before`, `word` and `after`;
        `cosines` [L + 1, M, M] in the embeddings and after each block; `orders` [L + 1, M], which
        put similar vectors side by side.

    Raises:
        InputError: A line lacks the word or is too long, or the word occurs once or too often.
    """
    words = tokenizer.ids_batch([word.strip(), f" {word.strip()}"])  # a byte-level BPE's two
    if not words[0] or tokenizer.vocabulary.unk_id in words[0]:
        raise InputError(f"the model's vocabulary does not know {word!r}; ask for another word")
    found = list(_sentences(sentences, words, tokenizer, word=word, max_length=max_length))
    places = [(each, place) for each in found for place in each.places]
    if not 2 <= len(places) <= MOST_PLACES:
        raise InputError(
            f"{word!r} stands in {sentences} {len(places)} times; expected 2 to {MOST_PLACES}"
        )
    vectors_MLD = [v for each in found for v in _vectors(encoder, tokenizer, each)]
    vectors_LMD = np.stack(vectors_MLD, axis=1)
    vectors_LMD /= np.linalg.norm(vectors_LMD, axis=-1, keepdims=True)
    cosines_LMM = np.clip(np.einsum("lad,lbd->lab", vectors_LMD, vectors_LMD), -1, 1)
    return {
        "word": word,
        "num_pieces": max(end - first for _, (first, end) in places),
        "places": [_told(each, *place) for each, place in places],
        "cosines": np.round(cosines_LMM.astype(float), 4).tolist(),
        "orders": [alike_together(each) for each in cosines_LMM],
    }


def _sentences(
    path: str | os.PathLike,
    words: list[list[int]],
    tokenizer: TextTokenizer,
    *,
    word: str,
    max_length: int,
) -> Iterator[Sentence]:
    by_rules = bool(tokenizer.vocabulary.rules)
    for line, text in enumerate(text_lines(path), start=1):
        read = tokenizer.encode(text)
        if len(read.ids) > max_length - 2:
            raise InputError(
                f"{path}, line {line} has {len(read.ids)} pieces; expected at most "
                f"{max_length - 2}, the model's"
            )
        places = [
            (first, first + len(ids))
            for first in range(len(read.ids))
            for ids in (words[:1] if words[0] == words[1] else words)
            if read.ids[first : first + len(ids)] == ids
            and _is_whole(text, read, first, first + len(ids), by_rules=by_rules)
        ]
        if not places:
            raise InputError(
                f"{path}, line {line} does not hold {word!r}; expected it in every line"
            )
        yield Sentence(line, text, read, places)


def _is_whole(text: str, read: TokenizedText, first: int, end: int, *, by_rules: bool) -> bool:
    """Whether the tokens are not part of a longer word."""
    if not by_rules:
        return not "".join(read.pieces[end : end + 1]).startswith("##")
    (start, _), (_, stop) = read.offsets[first], read.offsets[end - 1]
    return not (text[:start][-1:].isalnum() or text[stop : stop + 1].isalnum())


def _vectors(
    encoder: BertEncoder, tokenizer: TextTokenizer, sentence: Sentence
) -> Iterator[np.ndarray]:
    """float32 [L + 1, D] of each occurrence."""
    ids = sentence.read.ids
    inputs = pack([ids], vocabulary=tokenizer.vocabulary, max_length=len(ids) + 2)
    states_LTD = first_rows(encoder.states(inputs).hidden_states)
    for first, end in sentence.places:
        yield states_LTD[:, first + 1 : end + 1].mean(axis=1)  # [CLS] stands at 0


def _told(sentence: Sentence, first: int, end: int) -> dict:
    (start, _), (_, stop) = sentence.read.offsets[first], sentence.read.offsets[end - 1]
    text = sentence.text
    return {
        "line": sentence.line,
        "before": text[:start],
        "word": text[start:stop],
        "after": text[stop:],
    }


def alike_together(cosines_MM: np.ndarray) -> list[int]:
    """The order of the leaves of a tree that joins the nearest first."""
    distances = squareform(1 - cosines_MM, checks=False)
    return leaves_list(linkage(distances, "average", optimal_ordering=True)).tolist()
