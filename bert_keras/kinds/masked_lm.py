"""Pretraining: masked language models, next sentences and replaced tokens."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras.kinds.kind import Kind, softmax

NUM_TOKENS = 5  # the number of predicted tokens for each [MASK]


def predict_tokens(logits_PV: np.ndarray, tokens: Sequence[str]) -> dict[str, Any]:
    """Returns the `NUM_TOKENS` most probable tokens of each position and their probabilities.

    V, the number of logits of a position, is at least the number of tokens.
    """
    probabilities_PV = softmax(logits_PV[:, : len(tokens)])
    ids_PK = np.argsort(-probabilities_PV)[:, :NUM_TOKENS]
    best_PK = np.take_along_axis(probabilities_PV, ids_PK, axis=1)
    names = [[tokens[token_id] for token_id in ids] for ids in ids_PK]
    return {"tokens": names, "probabilities": best_PK.tolist()}


class MaskedLM(Kind):
    """Texts with [MASK], or the next token of a causal model."""

    model = "BertMaskedLM"
    module = "bert_keras.models.pretrainer"
    heads = ("masked_lm",)
    transformers_class = "ForMaskedLM"
    head_weight = "masked_lm/output_bias"
    google_weights: ClassVar = {"masked_lm/output_bias": "cls/predictions/output_bias"}
    google_prefix = "cls/predictions/"
    keras_hub_class = "MaskedLM"
    signatures = "masked_lm"
    answers_texts = True

    @classmethod
    def lines(cls, answer: dict):
        masks = zip(answer["tokens"], answer["probabilities"], strict=True)
        return [", ".join(map("{} {:.3f}".format, *mask)) for mask in masks]


class Pretraining(MaskedLM):
    """Masked tokens and next sentences."""

    model = "BertPretrainer"
    heads = ("masked_lm", "next_sentence")
    reads_pooled_output = True
    student = "BertMaskedLM"
    transformers_class = "ForPreTraining"
    head_weight = ""  # a MaskedLM has the same one, but not "next_sentence/dense/kernel"
    google_weights: ClassVar = {
        **MaskedLM.google_weights,
        "next_sentence/dense/kernel": "cls/seq_relationship/output_weights",
        "next_sentence/dense/bias": "cls/seq_relationship/output_bias",
    }
    google_prefix = "cls/seq_relationship/"
    keras_hub_class = ""


class Discriminator(Kind):
    """Whether each token was replaced (Clark et al. 2020)."""

    model = "BertDiscriminator"
    module = "bert_keras.models.replaced_tokens"
    heads = ("replaced_token",)
    head_weight = "replaced_token/dense/kernel"


class ReplacedTokens(Kind):
    """A generator of masked tokens and a discriminator (Clark et al. 2020)."""

    model = "BertReplacedTokenPretrainer"
    module = "bert_keras.models.replaced_tokens"
    heads = ("replaced_token", "generator")
