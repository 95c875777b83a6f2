"""The encoder alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.kinds.kind import Kind


class Encoder(Kind):
    """Hidden states of tokens; an export returns the mean of the states of each text."""

    model = "BertEncoder"
    module = "bert_keras.models.encoder"
    transformers_class = "Model"
    keras_hub_class = "Backbone"
    signatures = "embeddings"

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        answers = []
        for length, states in zip(rows.lengths, outputs, strict=True):
            row = {name: array[None] for name, array in states.items()}
            row["sequence_output"] = row["sequence_output"][:, :length]
            found = self.outputs({"input_mask": np.ones((1, length))}, row)
            answers.append({name: array[0].tolist() for name, array in found.items()})
        return answers

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        """Returns the mean of the states of all tokens, scaled to length 1, and `pooled`."""
        is_real_BT1 = (inputs["input_mask"] > 0)[:, :, None]
        total_BD = (logits["sequence_output"] * is_real_BT1).sum(axis=1)
        length_B1 = np.linalg.norm(total_BD, axis=1, keepdims=True)
        outputs = {"embedding": total_BD / np.maximum(length_B1, 1e-6)}
        if "pooled_output" in logits:
            outputs["pooled"] = logits["pooled_output"]
        return outputs
