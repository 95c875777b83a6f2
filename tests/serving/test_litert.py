"""Models in LiteRT's format answer as the SavedModels do, without TensorFlow and Keras."""

import numpy as np
import pytest

from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.serving.litert import LiteModel
from bert_keras.serving.model import SessionModel
from bert_keras.text.fast_tokenizer import tokenizer_of
from tests.factories import random_metadata, tiny_vocabulary, with_noise

pytest.importorskip("ai_edge_litert")
TEXTS = [b"the good river .", b"", b"a [MASK] film is [MASK] .", b"bank " * 30, b"un \xff \xc3\xa9"]
CONTEXTS = [b"the film was good .", b"", b" ", b"the bank is a bad bank . " * 9, b"good"]
IDS = {
    "input_ids": np.array([[2, 5, 6, 3], [2, 4, 3, 0], [2, 3, 2, 2]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]], np.int32),
    "segment_ids": np.array([[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]], np.int32),
}


def request(name, kind, inputs):
    """Returns a request for a signature with these inputs."""
    if name == "tensors":
        if kind.model == "BertMultipleChoice":
            return {each: np.stack([array, array[::-1]], axis=1) for each, array in IDS.items()}
        positions = {"masked_lm_positions": np.array([[1, 0, 9], [1, 2, 0], [1, 0, 0]], np.int32)}
        return {**IDS, **(positions if "masked_lm_positions" in inputs else {})}
    columns = {"context": CONTEXTS, "text_pair": CONTEXTS}
    tensors = {each: np.array(columns.get(each, TEXTS), object) for each in inputs}
    if "choices" in inputs:
        tensors["choices"] = np.array([CONTEXTS, TEXTS], object).T
    return tensors


def exported(kind, folder, **changes):
    is_span = kind.model == "BertQuestionAnswering"
    sizes = {"max_length": 70, "config": {"max_positions": 80}} if is_span else {"max_length": 24}
    metadata = random_metadata(kind.model, **{**sizes, **changes})
    model = with_noise(MODELS[kind.model].from_metadata(metadata), stddev=0.1)
    model.metadata = metadata
    model.tokenizer = tokenizer_of(tiny_vocabulary(), lowercase=True)
    model.export(folder / "tiny" / "1", format=["tf_saved_model", "litert"])
    return model, folder / "tiny" / "1"


@pytest.mark.parametrize("kind", [each for each in KINDS.values() if each.signatures])
def test_every_signature_answers_as_the_saved_model(kind, tmp_path):
    _, folder = exported(kind, tmp_path)
    session, lite = SessionModel(folder), LiteModel(folder)
    assert session.inputs == lite.inputs
    for name, inputs in lite.inputs.items():
        tensors = request(name, kind, inputs)
        expected, actual = session.predict(name, tensors), lite.predict(name, tensors)
        assert actual.keys() == expected.keys()
        for output, array in expected.items():
            assert actual[output].dtype == array.dtype
            if array.dtype == np.float32:
                np.testing.assert_allclose(actual[output], array, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(actual[output], array)
        assert lite.is_row_wise(name, tensors) == session.is_row_wise(name, tensors)
