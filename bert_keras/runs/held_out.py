"""A pretrained model and held-out records in, losses and accuracies out, beside the unigram's."""

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


def unigram_baseline(training, held_out, *, vocab_size: int) -> dict[str, float]:
    """What a model without context reaches on the held-out predictions: it answers every gap with
    the frequencies (plus one) of the training predictions, or with the most frequent piece. Both
    are data sets that end.
    """
    counts = _answer_counts(training, vocab_size, stage="count training answers")
    held_out = _answer_counts(held_out, vocab_size, stage="count held-out answers")
    log_share = np.log((counts + 1) / (counts + 1).sum())
    return {
        "unigram_masked_lm_loss": float(-(held_out * log_share).sum() / held_out.sum()),
        "unigram_masked_lm_accuracy": float(held_out[counts.argmax()] / held_out.sum()),
    }


def _answer_counts(batches, vocab_size: int, *, stage: str) -> np.ndarray:
    counts = np.zeros(vocab_size)
    for _, targets, weights in progress(batches, stage=stage, unit="batch"):
        real = weights["masked_lm"].numpy() > 0
        counts += np.bincount(targets["masked_lm"].numpy()[real], minlength=vocab_size)
    return counts


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[..., V] and int [...] -> [...], in nats."""
    largest = logits.max(-1)
    log_total = largest + np.log(np.exp(logits - largest[..., None]).sum(-1))
    return log_total - np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
