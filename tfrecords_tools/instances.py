"""Text pairs come in; cut to length, packed and masked they go out as the features of records."""

from typing import NamedTuple

import numpy as np

from bert_keras.data.masking import MaskingPolicy
from bert_keras.text.packing import packed, sequence_spans, truncated_lengths
from bert_keras.text.vocab import Vocabulary

NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]


class Pairs(NamedTuple):
    """One pair a row, int64 [N]: where A and B stand in the flat array, and B's label."""

    start_a: np.ndarray
    length_a: np.ndarray
    start_b: np.ndarray
    length_b: np.ndarray
    is_random: np.ndarray


def cut(rows: np.ndarray, *, max_length: int, generator: np.random.Generator) -> Pairs:
    """Pairs that fit, of int64 [N,5] rows: the longer text loses tokens at both ends by chance."""
    start_a, end_a, start_b, end_b, is_random = rows.T
    length_a, length_b = truncated_lengths(
        end_a - start_a, end_b - start_b, limit=max_length - NUM_SPECIALS
    )
    front_a = generator.binomial(end_a - start_a - length_a, 0.5)
    front_b = generator.binomial(end_b - start_b - length_b, 0.5)
    return Pairs(start_a + front_a, length_a, start_b + front_b, length_b, is_random)


def features(
    pairs: Pairs,
    pieces: np.ndarray,
    *,
    vocabulary: Vocabulary,
    length: int,
    policy: MaskingPolicy,
    replacements: np.ndarray,
    generator: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The seven features of a batch of pairs, packed and masked; see `bert_keras.data.schema`."""
    spans = sequence_spans(
        np.stack([pairs.start_a, pairs.start_b], axis=1),
        np.stack([pairs.length_a, pairs.length_b], axis=1),
    )
    rows = packed(pieces, spans, num_rows=len(pairs.start_a), length=length, vocabulary=vocabulary)
    input_ids = rows["input_ids"]
    is_special = (input_ids == vocabulary.cls_id) | (input_ids == vocabulary.sep_id)
    masked = policy.mask(
        input_ids,
        candidates=(rows["input_mask"] == 1) & ~is_special,
        lengths=rows["input_mask"].sum(axis=1),
        mask_id=vocabulary.mask_id,
        replacement_ids=replacements,
        generator=generator,
    )
    return {**rows, **masked, "next_sentence_labels": pairs.is_random[:, None]}
