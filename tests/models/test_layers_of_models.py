"""Each layer of each model can be serialized and rebuilt by itself, with its weights."""

import json

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig, DenseModule, EmbeddingConfig
from bert_keras.layers.embeddings import SharedEmbeddings
from bert_keras.models import MODELS

BERT = {"vocab_size": 40, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 12}
MODERN = {
    "norm_position": "pre",
    "position_kind": "rotary",
    "activation": "gelu_tanh",
    "pooler_activation": "",
    "is_gated": True,
    "has_head_norm": True,
    "ties_decoder": False,
    "embedding_size": 8,
    "num_lstm_layers": 1,
}
ARGUMENTS = {
    "BertClassifier": {"num_labels": 3},
    "BertTokenClassifier": {"num_labels": 3},
    "BertSentenceEncoder": {"embedding": EmbeddingConfig(modules=(DenseModule(units=4),))},
    "BertFeatureTagger": {"num_labels": 3, "layers": "weighted-sum-all", "lstm_units": 4},
}


@pytest.mark.parametrize("changes", [{}, MODERN], ids=["BERT", "modern"])
@pytest.mark.parametrize("name", MODELS)
def test_each_layer_is_rebuilt_with_its_weights(name, changes):
    config = BertConfig(**BERT | changes)
    model = MODELS[name](config, **ARGUMENTS.get(name, {}), dtype="mixed_bfloat16")
    if not model.built:
        model.build()
    others = keras.Model, SharedEmbeddings  # a generator shares weights of another encoder
    layers = [each for each in model._flatten_layers() if not isinstance(each, others)]
    assert {type(each).__name__ for each in layers} >= {"BertEmbeddings", "EncoderBlock", "Pooler"}
    for layer in layers:
        text = json.dumps(keras.layers.serialize(layer))
        rebuilt = keras.layers.deserialize(json.loads(text))
        assert type(rebuilt) is type(layer)
        assert json.dumps(keras.layers.serialize(rebuilt)) == text
        assert rebuilt.dtype_policy.name == "mixed_bfloat16" or rebuilt.compute_dtype == "float32"
        rebuilt.set_weights(layer.get_weights())
        for weight, expected in zip(rebuilt.weights, layer.weights, strict=True):
            np.testing.assert_array_equal(weight, expected)
