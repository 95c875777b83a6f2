"""The objectives that predict tokens, and the scores of models that read no context."""

import dataclasses
from functools import partial

import numpy as np
import tensorflow as tf

from bert_keras.data.objectives import MASKED, MASKED_AND_LABELLED, NEXT_TOKENS
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.progress import progress
from bert_keras.runs.objectives import Objective
from bert_keras.training.losses import pretraining_losses, pretraining_metrics


def baselines(training, held_out, *, vocab_size: int) -> dict[str, float]:
    """What models without context reach on the held-out predictions. The unigram answers with the
    frequencies (plus one) of the training predictions, or with the most frequent piece. The copying
    one sees the piece at the place itself too: it answers with that, as often as training
    predictions have it for their answer, and else as the unigram. Both are data sets that end.
    """
    answers, shown, same = _counts(training, vocab_size, stage="count training answers")
    share = (answers + 1) / (answers + 1).sum()
    is_same = (same + share) / (shown + 1)
    answers_there, shown_there, same_there = _counts(
        held_out, vocab_size, stage="count held-out answers"
    )
    total = answers_there.sum()
    copying = same_there * np.log(is_same)
    copying += (shown_there - same_there) * np.log((1 - is_same) / (1 - share))
    copying += (answers_there - same_there) * np.log(share)
    return {
        "unigram_masked_lm_loss": float(-(answers_there * np.log(share)).sum() / total),
        "unigram_masked_lm_accuracy": float(answers_there[answers.argmax()] / total),
        "copying_masked_lm_loss": float(-copying.sum() / total),
    }


def _counts(batches, vocab_size: int, *, stage: str) -> np.ndarray:
    """[3, V]: of predictions the answers, the pieces at their places, and those that are both."""
    counts = np.zeros((3, vocab_size))
    for inputs, targets, weights in progress(batches, stage=stage, unit="batch"):
        real = weights["masked_lm"].numpy() > 0
        places = inputs["masked_lm_positions"]
        shown = tf.gather(inputs["input_ids"], places, batch_dims=1).numpy()[real]
        answers = targets["masked_lm"].numpy()[real]
        for row, ids in zip(counts, (answers, shown, shown[shown == answers]), strict=True):
            row += np.bincount(ids, minlength=vocab_size)
    return counts


BERT = Objective(
    examples=MASKED_AND_LABELLED,
    model=BertPretrainer,
    losses=pretraining_losses,
    metrics=pretraining_metrics,
    baselines=baselines,
    without_labels="masked-lm",
)
MASKED_LM = Objective(
    examples=MASKED,
    model=BertMaskedLM,
    losses=partial(pretraining_losses, ["masked_lm"]),
    metrics=partial(pretraining_metrics, ["masked_lm"]),
    baselines=baselines,
)
LEFT_TO_RIGHT = dataclasses.replace(MASKED_LM, examples=NEXT_TOKENS, is_causal=True)
