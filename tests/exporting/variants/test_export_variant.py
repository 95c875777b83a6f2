"""Variants are measured, scored like their model, and refused if they are not better."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.downstream.catalog import task_of
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.variants import export_variant as module
from bert_keras.exporting.variants.export_variant import (
    FLOAT32,
    LITERT,
    Scoring,
    opened,
    score,
    seconds,
)
from bert_keras.exporting.verify import run_requests
from bert_keras.exporting.version_folder import METADATA, check_files
from bert_keras.models import BertEncoder, load_model
from bert_keras.runs.evaluate import model_predictions
from tests.exporting.variants.fine_tuned import fine_tuned

INPUTS = {name: np.full((2, 7), name != "segment_ids", np.int32)
          for name in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("classification", tmp_path_factory.mktemp("run"))


@pytest.fixture(autouse=True)
def few_measurements(monkeypatch, not_verified):
    monkeypatch.setattr(module, "_NUM_ROUNDS", 1)


@pytest.fixture
def measured(monkeypatch):
    """Sets the measurements of float32 and of the variant."""

    def measured(*, times=(1.0, 0.5), scores=(90.0, 90.0), sizes=(100, 50)):
        scores, sizes = iter(scores), iter(sizes)
        monkeypatch.setattr(
            module,
            "seconds",
            lambda models, **_: {
                n: {"1 x 5 tokens": t} for n, t in zip(models, times, strict=True)
            },
        )
        monkeypatch.setattr(module, "score", lambda *_: next(scores))
        monkeypatch.setattr(module, "_num_bytes", lambda folder: next(sizes))

    return measured


def test_a_variant_is_measured_and_written(tmp_path, run, measured, capsys):
    measured(scores=(90.0, 89.75))
    model, data = run
    written = export(model, tmp_path / "name" / "3", variant="float16", data=data)
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["3"]
    assert capsys.readouterr().out.splitlines() == [
        "           on disk  1 x 5 tokens  accuracy",
        "float32  100 bytes     1000.0 ms     90.00",
        "float16   50 bytes      500.0 ms     89.75",
        "             0.50x         0.50x     -0.25",
    ]
    metadata = json.loads((written / METADATA).read_text("utf-8"))
    assert metadata["card"]["model"] == "BertClassifier"
    assert metadata["variant"] == {
        "name": "float16",
        "figures": {
            "float32": {"num_bytes": 100, "seconds": {"1 x 5 tokens": 1.0}, "score": 90.0},
            "float16": {"num_bytes": 50, "seconds": {"1 x 5 tokens": 0.5}, "score": 89.75},
        },
        "scored_on": {"task": "classification", "metric": "accuracy", "examples": 48},
    }
    check_files(written)
    request = {"signature": "serving_default", "inputs": {"text": ["a film"]}}
    assert run_requests(written, [request])[0]["labels"] == [["no", "yes"]]


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"scores": (90.0, 88.0)}, "loses 2.00 points of accuracy, more than 0.5"),
        ({"sizes": (100, 98)}, "takes 0.98x of float32's bytes"),
    ],
)
def test_a_variant_that_is_not_better_is_refused(tmp_path, run, measured, figures, message):
    measured(**figures)
    model, data = run
    with pytest.raises(InputError, match=message):
        export(model, tmp_path / "name" / "1", variant="float16", data=data)
    assert not [*tmp_path.glob("name/*")]
    if "scores" in figures:
        measured(**figures)
        settings = {"variant": "float16", "data": data, "max_score_loss": 2}
        assert export(model, tmp_path / "name" / "1", **settings).is_dir()


def test_models_without_a_scoring_task_are_refused(tmp_path, run):
    folder, data = run
    model = load_model(folder)

    def refused(model, message, **settings):
        with pytest.raises(InputError, match=message):
            export(model, tmp_path / "name" / "1", variant="float16", data=data, **settings)

    refused(folder, "max_score_loss is -1", max_score_loss=-1)
    refused(folder, "no task is called 'sst2-of-mine'", task="sst2-of-mine")
    pairs, _ = fine_tuned("sentence-pairs", tmp_path)
    refused(pairs, "retrieval does not score", task="retrieval")
    encoder = BertEncoder(model.metadata.config)
    encoder.tokenizer = model.tokenizer
    refused(encoder, "is a BertEncoder, which no task scores; expected")
    model.metadata = dataclasses.replace(model.metadata, task={})
    refused(model, "does not state its task")


@pytest.mark.slow
def test_a_litert_model_approximates_the_model_for_any_batch_size(tmp_path, run, capfd):
    model, data = run
    settings = {"variant": "litert", "data": data, "max_score_loss": 5}
    written = export(model, tmp_path / "name" / "1", **settings)
    names = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert names == {"model.tflite", "assets/vocab.txt", METADATA}
    check_files(written)
    expected = tf.nn.softmax(load_model(model)(INPUTS, training=False)).numpy()
    with opened(LITERT, written) as run_litert:
        assert "deprecated" not in capfd.readouterr().err
        for rows in (2, 1):
            predictions = run_litert({name: array[:rows] for name, array in INPUTS.items()})
            assert list(predictions) == ["probabilities"]
            np.testing.assert_allclose(predictions["probabilities"], expected[:rows], atol=0.05)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("classification", 100),
        pytest.param("multi-label", 100, marks=pytest.mark.slow),
        pytest.param("regression", 100, marks=pytest.mark.slow),
        pytest.param("squad1", 1, marks=pytest.mark.slow),
        ("sentence-pairs", 100),
        pytest.param("swag", 100, marks=pytest.mark.slow),
        pytest.param("ner", 1, marks=pytest.mark.slow),
    ],
)
def test_an_export_has_the_score_of_its_model(tmp_path, name, points):
    model, data = fine_tuned(name, tmp_path, seed=6)
    written = export(model, tmp_path / "name" / "1")
    predictions = model_predictions(name, model=model, data=str(data))
    task, examples = predictions.task, predictions.examples
    encoded = task.encode(examples, load_model(model).tokenizer)
    with opened(FLOAT32, written) as run:
        actual = score(run, Scoring(task, examples, encoded))
        times = seconds({"model": run}, task=task, encoded=encoded)
    expected = points * task.score(examples, predictions.predict())[task.metric]
    assert 0 < abs(expected) < 100
    assert actual == pytest.approx(expected, abs=1e-3)
    one, many = times["model"]
    assert one == f"1 x {int(np.median(encoded.lengths))} tokens"
    assert many == "8 x 16 tokens"


def test_models_are_timed_in_turn(run):
    folder, data = run
    model = load_model(folder)
    task = task_of(model.metadata, name="classification", source=folder)
    encoded = task.encode(task.read(data, split="dev"), model.tokenizer)
    calls = []
    models = {name: lambda inputs, name=name: calls.append(name) for name in ("a", "b")}
    seconds(models, task=task, encoded=encoded)
    assert calls == ["a", "b"] * 4
