"""Variants are measured, scored like their model, and refused if they lose too much."""

import dataclasses
import json

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.variants import export_variant as module
from bert_keras.exporting.variants.export_variant import FLOAT32, Scoring, opened, score, seconds
from bert_keras.exporting.verify import run_requests
from bert_keras.exporting.version_folder import METADATA
from bert_keras.models import BertEncoder, load_model
from bert_keras.runs.evaluate import predict_examples
from tests.exporting.variants.fine_tuned import fine_tuned


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("classification", tmp_path_factory.mktemp("run"))


@pytest.fixture(autouse=True)
def few_measurements(monkeypatch, not_verified):
    monkeypatch.setattr(module, "_NUM_ROUNDS", 1)


@pytest.mark.slow
def test_a_variant_is_measured_and_written_unless_it_loses_too_much(
    tmp_path, run, monkeypatch, capsys
):
    times = {"float32": {"1 x 5 tokens": 1.0}, "float16": {"1 x 5 tokens": 0.5}}
    monkeypatch.setattr(module, "seconds", lambda models, **_: times)
    monkeypatch.setattr(module, "_num_bytes", lambda folder: 100 if FLOAT32 in folder.parts else 50)
    scores = iter([90.0, 88.0, 90.0, 88.0])
    monkeypatch.setattr(module, "score", lambda *_: next(scores))
    model, data = run
    with pytest.raises(InputError, match=r"loses 2.00 points of accuracy, more than 0\.5"):
        export(model, tmp_path / "name" / "3", variant="float16", data=data)
    assert not [*tmp_path.glob("name/*")]
    settings = {"variant": "float16", "data": data, "max_score_drop": 2}
    written = export(model, tmp_path / "name" / "3", **settings)
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["3"]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "float32:  100 bytes on disk; 1000.0 ms for 1 x 5 tokens; accuracy 0.9000",
        "float16:  50 bytes on disk; 500.0 ms for 1 x 5 tokens; accuracy 0.8800",
    ]
    metadata = json.loads((written / METADATA).read_text("utf-8"))
    assert metadata["card"]["model"] == "BertClassifier"
    assert metadata["variant"] == {
        "name": "float16",
        "figures": {
            "float32": {"num_bytes": 100, "seconds": {"1 x 5 tokens": 1.0}, "score": 90.0},
            "float16": {"num_bytes": 50, "seconds": {"1 x 5 tokens": 0.5}, "score": 88.0},
        },
        "scored_on": {"task": "classification", "metric": "accuracy", "examples": 48},
    }
    request = {"signature": "serving_default", "inputs": {"text": ["a film"]}}
    assert run_requests(written, [request])[0]["labels"] == [["no", "yes"]]


def test_models_without_a_scoring_task_are_refused(tmp_path, run):
    folder, data = run
    model = load_model(folder)

    def refused(model, message, **settings):
        with pytest.raises(InputError, match=message):
            export(model, tmp_path / "name" / "1", variant="float16", data=data, **settings)

    refused(folder, "max_score_drop is -1", max_score_drop=-1)
    refused(folder, "no task is called 'sst2-of-mine'", task="sst2-of-mine")
    refused(folder, "no column 'review'", changes={"text_columns": ("review",)})
    encoder = BertEncoder(model.metadata.config)
    encoder.tokenizer = model.tokenizer
    refused(encoder, "is a BertEncoder; the task classification", task="classification")
    changes = {"model": "BertTokenClassifier", "task": {}}
    model.metadata = dataclasses.replace(model.metadata, **changes)
    refused(model, "does not state its task")


@pytest.mark.parametrize(
    "name",
    ["classification", "multi-label", "regression", "squad1", "sentence-pairs", "swag", "ner"],
)
@pytest.mark.slow
def test_an_export_has_the_score_of_its_model(tmp_path, name):
    model, data = fine_tuned(name, tmp_path, seed=6)
    written = export(model, tmp_path / "name" / "1")
    task, examples, predicted = predict_examples(model, data, task=name)
    encoded = task.encode(examples, load_model(model).tokenizer)
    with opened(written) as run:
        actual = score(run, Scoring(task, examples, encoded))
        times = seconds({"model": run}, task=task, encoded=encoded)
    expected = 100 * task.score(examples, predicted)[task.metric]
    assert 0 < abs(expected) < 100
    assert actual == pytest.approx(expected, abs=1e-3)
    assert [*times["model"]] == [f"1 x {int(np.median(encoded.lengths))} tokens", "8 x 16 tokens"]
