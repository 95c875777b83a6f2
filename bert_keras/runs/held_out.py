"""A pretrained model and held-out records in, its scores out; and what no context gives."""

from functools import partial

import numpy as np
import tensorflow as tf

from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.progress import progress


def evaluate_pretrainer(model: BertPretrainer | BertMaskedLM, held_out) -> dict[str, float]:
    """Losses in nats and accuracies over a whole data set; each prediction weighs the same."""
    names = list(held_out.element_spec[1])
    sums = {name: np.zeros(3) for name in names}  # of losses, hits, weights
    examples = 0
    forward = tf.function(partial(model, training=False), reduce_retracing=True)
    for inputs, targets, weights in progress(held_out, stage="score held-out", unit="batch"):
        logits = {name: array.numpy() for name, array in forward(inputs).items()}
        for name in names:
            answers, weight = targets[name].numpy(), weights[name].numpy()
            losses = _cross_entropy(logits[name], answers)
            hits = logits[name].argmax(-1) == answers
            sums[name] += [(losses * weight).sum(), (hits * weight).sum(), weight.sum()]
        examples += len(inputs["input_ids"])
    scores = {}
    for name, (loss, hits, weight) in sums.items():
        scores[f"held_out_{name}_loss"] = float(loss / weight)
        scores[f"held_out_{name}_accuracy"] = float(hits / weight)
    return scores | {
        "held_out_predictions": round(sums["masked_lm"][2]),
        "held_out_examples": examples,
    }


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


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[..., V] and int [...] -> [...], in nats."""
    largest = logits.max(-1)
    log_total = largest + np.log(np.exp(logits - largest[..., None]).sum(-1))
    return log_total - np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
