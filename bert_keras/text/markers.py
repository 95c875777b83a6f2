"""Tokenizes texts in which markers enclose two entities, as KLUE's relation extraction does.

`<subj>조지</subj>는 <obj>비틀즈</obj>다`: each marker is one token. The rules are those of
KLUE-benchmark/KLUE-baseline (klue_baseline/data/klue_re.py) for WordPiece.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import TextTokenizer, TokenizedText, WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary, is_unused

SUBJECT, OBJECT = ("<subj>", "</subj>"), ("<obj>", "</obj>")  # start and end
MARKERS = (*SUBJECT, *OBJECT)
END_MARKERS = (SUBJECT[1], OBJECT[1])
MARKER_PATTERN = f"({'|'.join(MARKERS)})"


class MarkedTokenizer(WordPieceTokenizer):
    """The tokenizer of a vocabulary that has `MARKERS`, which it reads as tokens.

    If a Hangul syllable follows an end marker without a space, the token there continues a word:
    "는" becomes "##는".
    """

    def __init__(self, vocabulary: Vocabulary, *, lowercase: bool = True):
        super().__init__(vocabulary, lowercase=lowercase)
        self._continuing_ids = continuing_ids(vocabulary)

    def encode_batch(self, texts: Sequence[str]) -> list[TokenizedText]:
        parts = [re.split(MARKER_PATTERN, text) for text in texts]  # every second one is a marker
        others = iter(super().encode_batch([part for each in parts for part in each[::2]]))
        return [self._joined(each, others) for each in parts]

    def ids_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [text.ids for text in self.encode_batch(texts)]

    flat_ids = TextTokenizer.flat_ids

    def _joined(self, parts: list[str], others: Iterator[TokenizedText]) -> TokenizedText:
        ids, offsets, start = [], [], 0
        for index, part in enumerate(parts):
            if index % 2:
                ids.append(self.vocabulary.ids[part])
                offsets.append((start, start + len(part)))
            else:
                tokenized = next(others)
                first = len(ids)
                ids += tokenized.ids
                offsets += [(start + one, start + other) for one, other in tokenized.offsets]
                is_after_end = index > 0 and parts[index - 1] in END_MARKERS
                if is_after_end and tokenized.ids and not part.startswith(" "):
                    ids[first] = self._continuing_ids[ids[first]]
            start += len(part)
        return TokenizedText(ids, [self.vocabulary.tokens[each] for each in ids], offsets)


def has_markers(vocabulary: Vocabulary) -> bool:
    """Returns whether the vocabulary has all markers."""
    return all(marker in vocabulary.ids for marker in MARKERS)


def with_markers(vocabulary: Vocabulary) -> Vocabulary:
    """Renames the first [unusedN] tokens to the markers that the vocabulary lacks.

    Raises:
        InputError: The vocabulary is not a WordPiece vocabulary, or has too few [unusedN] tokens.
    """
    if vocabulary.rules:
        raise InputError(
            "entities are marked only for models with a WordPiece vocabulary; the checkpoint has a "
            "byte-level BPE or Unigram tokenizer"
        )
    missing = [marker for marker in MARKERS if marker not in vocabulary.ids]
    unused = [token for token in vocabulary.tokens if is_unused(token)]
    if len(unused) < len(missing):
        raise InputError(
            f"the vocabulary has {len(unused)} [unusedN] tokens; expected {len(missing)} for the "
            f"markers {' '.join(missing)}; write the markers to a file, one on each line, and add "
            "them: bert-keras convert SRC DST --extend-vocabulary FILE"
        )
    names = dict(zip(unused, missing, strict=False))
    return replace(vocabulary, tokens=tuple(names.get(each, each) for each in vocabulary.tokens))


def continuing_ids(vocabulary: Vocabulary) -> list[int]:
    """Returns, for each token, the id of the same token with "##".

    The id is that of [UNK] if the vocabulary lacks it. Tokens that do not start with a Hangul
    syllable keep their ids.
    """
    ids, unknown = vocabulary.ids, vocabulary.unk_id
    return [
        ids.get(f"##{token}", unknown) if "가" <= token[0] <= "힣" else token_id
        for token_id, token in enumerate(vocabulary.tokens)
    ]
