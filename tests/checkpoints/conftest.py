"""What tests of formats share: a small vocabulary, a card and random weights for each model."""

import contextlib
import resource

import numpy as np
import pytest

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.config import BertConfig
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghij", *(f"##{letter}" for letter in "abcde")))

TASKS = {
    "BertFeatureTagger": {"name": "ner-features", "layers": "weighted-sum-all", "lstm_units": 3},
    "BertReplacedTokenPretrainer": {"generator_size": 0.5},
}


@pytest.fixture
def checkpoint():
    """A maker of random checkpoints: `checkpoint("BertClassifier", activation="gelu_tanh")`."""

    def make(model: str, *, seed: int = 0, vocabulary: Vocabulary = VOCABULARY, **changes):
        sizes = {"vocab_size": len(vocabulary), "hidden_size": 8, "num_layers": 2, "num_heads": 2}
        metadata = ModelMetadata(
            model=model,
            config=BertConfig(**{**sizes, "max_positions": 16, **changes}),
            lowercase=True,
            max_length=12,
            text_columns=("question", "answer")
            if ARCHITECTURES[model].heads == ("classification",)
            else (),
            labels=("no", "yes", "perhaps") if ARCHITECTURES[model].is_labelled else (),
            problem_type="single_label_classification" if model == "BertClassifier" else "",
            task=TASKS.get(model, {}),
        )
        random = np.random.default_rng(seed)
        arrays = {r.name: random.normal(size=r.shape).astype("float32") for r in rows(metadata)}
        return Checkpoint(metadata=metadata, tensors=stored(arrays), vocabulary=vocabulary)

    return make


@pytest.fixture
def file_size_limit():
    """A maker of blocks in which no file can grow beyond some bytes, as on a disk that is full."""

    @contextlib.contextmanager
    def limit(num_bytes: int):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


def stored(arrays):
    return {name: StoredTensor(a.shape, lambda a=a: a) for name, a in arrays.items()}
