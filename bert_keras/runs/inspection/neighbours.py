"""A word and sentences that hold it in; how near its vectors are to each other, by layer, out."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from keras import ops
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from bert_keras.encoder.encoder import BertEncoder
from bert_keras.errors import InputError
from bert_keras.storage import text_lines
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TokenizedText, WordPieceTokenizer

MOST_PLACES = 100  # of a table that can be read


class Sentence(NamedTuple):
    """`places`: where the word's pieces begin, one for each time that it stands there."""

    line: int
    text: str
    read: TokenizedText
    places: list[int]


def neighbours(
    encoder: BertEncoder,
    tokenizer: WordPieceTokenizer,
    *,
    word: str,
    sentences: str | os.PathLike,
    max_length: int,
) -> dict:
    """`places`: of each time that the word stands in a line of the file, `line` and the text
    `before`, `word` and `after`. `cosines` [L + 1, M, M] of its vectors, the means over its pieces,
    in the embeddings and after each block; `orders` [L + 1, M] put those together that are alike.

    Raises InputError for a line that lacks the word or is too long, and where it stands in all of
    them but once or too often.
    """
    ids = tokenizer.ids_batch([word])[0]
    if not ids or tokenizer.vocabulary.unk_id in ids:
        raise InputError(f"the model's vocabulary does not know {word!r}; ask for another word")
    found = list(_sentences(sentences, ids, tokenizer, word=word, max_length=max_length))
    places = [(each, place) for each in found for place in each.places]
    if not 2 <= len(places) <= MOST_PLACES:
        raise InputError(
            f"{word!r} stands in {sentences} {len(places)} times; expected 2 to {MOST_PLACES}"
        )
    vectors_MLD = [v for each in found for v in _vectors(encoder, tokenizer, each, len(ids))]
    vectors_LMD = np.stack(vectors_MLD, axis=1)
    vectors_LMD /= np.linalg.norm(vectors_LMD, axis=-1, keepdims=True)
    cosines_LMM = np.clip(np.einsum("lad,lbd->lab", vectors_LMD, vectors_LMD), -1, 1)
    return {
        "word": word,
        "num_pieces": len(ids),
        "places": [_told(each, place, place + len(ids) - 1) for each, place in places],
        "cosines": np.round(cosines_LMM.astype(float), 4).tolist(),
        "orders": [alike_together(each) for each in cosines_LMM],
    }


def _sentences(
    path: str | os.PathLike,
    ids: list[int],
    tokenizer: WordPieceTokenizer,
    *,
    word: str,
    max_length: int,
) -> Iterator[Sentence]:
    for line, text in enumerate(text_lines(path), start=1):
        read = tokenizer.encode(text)
        if len(read.ids) > max_length - 2:
            raise InputError(
                f"{path}, line {line} has {len(read.ids)} pieces; expected at most "
                f"{max_length - 2}, the model's"
            )
        places = [
            at
            for at in range(len(read.ids) - len(ids) + 1)
            if read.ids[at : at + len(ids)] == ids
            and not "".join(read.pieces[at + len(ids) :][:1]).startswith("##")
        ]
        if not places:
            raise InputError(
                f"{path}, line {line} does not hold {word!r}; expected it in every line"
            )
        yield Sentence(line, text, read, places)


def _vectors(
    encoder: BertEncoder, tokenizer: WordPieceTokenizer, sentence: Sentence, num_pieces: int
) -> Iterator[np.ndarray]:
    """float32 [L + 1, D] of each place."""
    ids = sentence.read.ids
    inputs = pack([ids], vocabulary=tokenizer.vocabulary, max_length=len(ids) + 2)
    states = encoder.states(inputs).hidden_states
    states_LTD = np.stack([ops.convert_to_numpy(each)[0] for each in states])
    for place in sentence.places:
        yield states_LTD[:, place + 1 : place + 1 + num_pieces].mean(axis=1)  # [CLS] stands at 0


def _told(sentence: Sentence, first: int, last: int) -> dict:
    (start, _), (_, end) = sentence.read.offsets[first], sentence.read.offsets[last]
    text = sentence.text
    return {
        "line": sentence.line,
        "before": text[:start],
        "word": text[start:end],
        "after": text[end:],
    }


def alike_together(cosines_MM: np.ndarray) -> list[int]:
    """The order of the leaves of a tree that joins the nearest first."""
    distances = squareform(1 - cosines_MM, checks=False)
    return leaves_list(linkage(distances, "average", optimal_ordering=True)).tolist()
