"""Pretraining: masked language models, next sentences and replaced tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras.data.encoded import Encoded
from bert_keras.kinds.kind import Kind, columns_of_answers, softmax
from bert_keras.text.packing import encode_masked

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


class MaskedTexts(Encoded):
    """Texts in which each [MASK] is a token to predict; `inputs` are from `encode_masked`."""

    def __init__(self, inputs: dict[str, np.ndarray]):
        self.inputs = inputs
        self.lengths = inputs["input_mask"].sum(axis=1)
        self.num_masks = (inputs["masked_lm_positions"] > 0).sum(axis=1)

    def batch(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray]]:
        length, most = self.lengths[rows].max(), max(1, self.num_masks[rows].max())
        inputs = {name: array[rows, :length] for name, array in self.inputs.items()}
        positions = self.inputs["masked_lm_positions"][rows, :most]
        padding = [(0, 0), (0, most - positions.shape[1])]
        return ({**inputs, "masked_lm_positions": np.pad(positions, padding)},)


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

    def encoded(self, columns: Sequence[list], labels: Any = None):
        inputs = encode_masked(self.tokenizer, *columns, max_length=self.metadata.max_length)
        return MaskedTexts(inputs)

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        tokens = self.tokenizer.vocabulary.tokens
        logits = zip(rows.num_masks, (each["masked_lm"] for each in outputs), strict=True)
        return [predict_tokens(logits_PV[:count], tokens) for count, logits_PV in logits]

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        positions_BP, length = inputs["masked_lm_positions"], inputs["input_ids"].shape[1]
        is_valid_BP = (positions_BP > 0) & (positions_BP < length)
        names = self.tokenizer.vocabulary.tokens
        found = columns_of_answers([predict_tokens(each, names) for each in logits["masked_lm"]])
        is_valid_BP5 = np.broadcast_to(is_valid_BP[..., None], np.shape(found["tokens"]))
        outputs = {
            "tokens": np.where(is_valid_BP5, found["tokens"], "").tolist(),
            "probabilities": np.where(is_valid_BP5, found["probabilities"], 0),
        }
        if "next_sentence" in logits:
            outputs["is_next_probability"] = softmax(logits["next_sentence"])[:, 0]
        return outputs

    @classmethod
    def lines(cls, answer: dict):
        lines = []
        for tokens, probabilities in zip(answer["tokens"], answer["probabilities"], strict=True):
            pairs = zip(tokens, probabilities, strict=True)
            lines.append(", ".join(f"{token} {probability:.3f}" for token, probability in pairs))
        return lines


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
