"""Batches of parsed records come in; what they add to the counts goes out."""

import numpy as np

from bert_keras.data.schema import LABEL_FEATURE, LABEL_WEIGHTS_FEATURE, WEIGHTS_FEATURE
from bert_keras.text.vocab import Vocabulary


def counted(features: dict[str, np.ndarray], *, vocabulary: Vocabulary) -> dict[str, int]:
    """What a batch adds to the counts; of absent features nothing."""
    ids, is_real = features["input_ids"], features["input_mask"] == 1
    is_text = is_real & (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
    counts = {
        "records": len(ids),
        "positions": ids.size,
        "tokens": is_real.sum(),
        "text": is_text.sum(),
        "unknown": (is_text & (ids == vocabulary.unk_id)).sum(),
    }
    if WEIGHTS_FEATURE in features:
        answers, is_counted = features["masked_lm_ids"], features[WEIGHTS_FEATURE] > 0
        shown = np.take_along_axis(ids, features["masked_lm_positions"], axis=1)
        counts |= {
            "predicted": is_counted.sum(),
            "masked": (is_counted & (shown == vocabulary.mask_id)).sum(),
            "kept": (is_counted & (shown == answers)).sum(),
        }
    if LABEL_FEATURE in features:
        counts |= {
            "labels": is_labelled(features).sum(),
            "labels_one": features[LABEL_FEATURE].sum(),
        }
    if "sequence_ids" in features:
        counts["sequences"] = features["sequence_ids"].max(axis=1).sum()
    return {name: int(count) for name, count in counts.items()}


def is_labelled(features: dict[str, np.ndarray]) -> np.ndarray:
    """bool [B,S]: which labels count; without packing every one."""
    labels = features[LABEL_FEATURE]
    return features.get(LABEL_WEIGHTS_FEATURE, np.ones_like(labels)) > 0
