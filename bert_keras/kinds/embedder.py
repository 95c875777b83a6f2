"""Vectors of texts: of an encoder alone, and sentence embeddings (Reimers and Gurevych 2019)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError
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
            batch_of_one = {name: array[None] for name, array in states.items()}
            batch_of_one["sequence_output"] = batch_of_one["sequence_output"][:, :length]
            vectors = self.outputs({"input_mask": np.ones((1, length))}, batch_of_one)
            answers.append({name: array[0].tolist() for name, array in vectors.items()})
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


class Embedder(Kind):
    """One embedding for each text; an example is a group of texts, such as query and document."""

    model = "BertSentenceEncoder"
    module = "bert_keras.models.sentence_encoder"
    signatures = "embeddings"
    answers_texts = True
    needs_labels = False  # a loss that ranks the texts of a batch does not read labels

    @property
    def preprocessor(self):
        from bert_keras.data.preprocessor import GroupPreprocessor

        return GroupPreprocessor(self.tokenizer, max_length=self.metadata.max_length)

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        return np.stack(outputs)

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        return {"embedding": logits}

    @classmethod
    def columns_of_arguments(cls, texts: Sequence[str], *, num_columns: int, source: str):
        """Returns a column of one text for each of the texts to compare."""
        if len(texts) < 2:
            raise InputError(f"{source} compares 2 texts; bert-keras embed writes vectors")
        return tuple([text] for text in texts)

    @classmethod
    def ask(cls, model: Any, columns: tuple[list[str], ...]):
        """Returns the cosines of all pairs of texts."""
        texts = [text for (text,) in columns]
        vectors = model.encode(texts)
        unit_vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return [
            (f"{texts[i]} | {texts[j]}", {"cosine": float(unit_vectors[i] @ unit_vectors[j])})
            for i, j in itertools.combinations(range(len(texts)), 2)
        ]
