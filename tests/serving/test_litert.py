"""Models in LiteRT's format answer as the SavedModels do, without TensorFlow and Keras."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from bert_keras import load_exported
from bert_keras.errors import InputError
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.runs.export import export
from bert_keras.serving.litert import LiteModel
from bert_keras.serving.model import SessionModel
from bert_keras.serving.rest_api import Refusal
from bert_keras.serving.version_folder import LITERT
from bert_keras.text.fast_tokenizer import tokenizer_of
from tests.exporting.fine_tuned import TEXTS as FILMS
from tests.exporting.fine_tuned import fine_tuned
from tests.factories import random_metadata, tiny_vocabulary, with_noise

ROOT = Path(__file__).resolve().parents[2]
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


def test_int8_is_smaller_and_close_to_float32(tmp_path):
    model, data = fine_tuned("regression", tmp_path)
    options = {"format": "litert", "data": data, "task": "regression", "max_score_drop": 2}
    folders = [
        export(model, tmp_path / "one" / "1", format="litert"),
        export(model, tmp_path / "two" / "1", variant="int8", **options),
    ]
    large, small = ((folder / LITERT).stat().st_size for folder in folders)
    assert small < 0.7 * large
    scores, rounded = (
        np.array([each["score"] for each in load_exported(folder).predict(FILMS)])
        for folder in folders
    )
    assert (scores != rounded).any()
    np.testing.assert_allclose(rounded, scores, atol=0.05 * np.ptp(scores))


def test_predict_answers_as_the_keras_model(tmp_path):
    model, folder = exported(KINDS["BertClassifier"], tmp_path)
    pairs = ["the good river .", "a bad film"], ["the film was good .", "good"]
    exported_model = load_exported(folder.parent)  # of the latest version
    expected, actual = model.predict(pairs, verbose=0), exported_model.predict(pairs)
    for one, other in zip(expected, actual, strict=True):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(one["probabilities"], other["probabilities"], atol=1e-6)
    with pytest.raises(InputError):
        exported_model.predict(pairs[0])


def test_impossible_ids_are_refused(tmp_path):
    lite = LiteModel(exported(KINDS["BertEncoder"], tmp_path)[1])
    for name, value in ("input_ids", 999), ("input_mask", 2), ("segment_ids", -1):
        with pytest.raises(Refusal):
            lite.predict("tensors", {**IDS, name: np.full((3, 4), value, np.int32)})
    with pytest.raises(Refusal):
        lite.predict("tensors", {**IDS, "input_mask": np.ones((3, 5), np.int32)})
    long = {name: np.ones((1, 65), np.int32) for name in IDS}
    with pytest.raises(Refusal):
        lite.predict("tensors", long)


def test_the_server_needs_only_the_packages_of_the_dockerfile(tmp_path):
    _, folder = exported(KINDS["BertClassifier"], tmp_path)
    program = f"""
import json, sys
from importlib.metadata import packages_distributions
from bert_keras.cli import main
from bert_keras.serving.server import running_server
main(["predict", "--json", {str(folder)!r}, "the good river .", "a film"])
with running_server({str(folder.parent)!r}):
    known, loaded = packages_distributions(), {{name.partition(".")[0] for name in sys.modules}}
print("loaded", *{{each for name in loaded for each in known.get(name, ())}})
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    answers, _, loaded = process.stdout.partition("loaded")
    assert json.loads(answers)[0]["labels"] == ["no", "yes", "perhaps"]
    page = (ROOT / "docs/how-to/serve.md").read_text("utf-8")
    dockerfile = page.split("```dockerfile")[1].split("```")[0]
    listed = {Requirement(each) for each in re.findall(r'"([\w-]+[<>=][^"]*)"', dockerfile)}
    ours = {*map(Requirement, metadata.requires("bert-keras") or ())}
    used = {each for each in ours if each.name in loaded.split()}
    assert used <= listed <= ours
