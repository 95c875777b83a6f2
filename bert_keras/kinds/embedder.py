"""Sentence embeddings (Reimers and Gurevych 2019)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError
from bert_keras.kinds.kind import Kind


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
    def columns_of_words(cls, texts: Sequence[str], *, num_columns: int, source: str):
        """Returns a column of one text for each of the texts to compare."""
        if len(texts) < 2:
            raise InputError(f"{source} compares 2 texts; bert-keras embed writes vectors")
        return tuple([text] for text in texts)

    @classmethod
    def ask(cls, model: Any, columns: tuple[list[str], ...]):
        """Returns the cosines of all pairs of texts."""
        vectors = model.encode(texts := [text for (text,) in columns])
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return [
            (f"{texts[i]} | {texts[j]}", {"cosine": float(units[i] @ units[j])})
            for i, j in itertools.combinations(range(len(texts)), 2)
        ]
