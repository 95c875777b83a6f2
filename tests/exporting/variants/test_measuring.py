import numpy as np
import pytest

from bert_keras.downstream.catalog import task_of
from bert_keras.exporting.export import export
from bert_keras.exporting.variants import measuring
from bert_keras.exporting.variants.measuring import score, seconds
from bert_keras.exporting.variants.sentences import on_groups
from bert_keras.exporting.verify import loaded
from bert_keras.models import load_model
from bert_keras.runs.evaluate import model_predictions
from tests.exporting.variants.fine_tuned import fine_tuned


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
def test_an_export_has_the_score_of_its_model(tmp_path, name, points, monkeypatch, not_verified):
    monkeypatch.setattr(measuring, "_SECONDS", 0)
    model_folder, data = fine_tuned(name, tmp_path, seed=6)
    written = export(model_folder, tmp_path / "name" / "1")
    predictions = model_predictions(name, model=model_folder, data=str(data))
    task, examples = predictions.task, predictions.examples
    encoded = task.encode(examples, load_model(model_folder).tokenizer)
    with loaded(written) as run:

        def run_tensors(inputs):
            return run({"signature": "tensors", "inputs": inputs})

        if name == "sentence-pairs":
            run_tensors = on_groups(run_tensors)
        actual = score(run_tensors, task=task, examples=examples, encoded=encoded, stage="test")
        times = seconds({"model": run_tensors}, task=task, encoded=encoded)
    expected = points * task.score(examples, predictions.predict())[task.metric]
    assert 0 < abs(expected) < 100
    assert actual == pytest.approx(expected, abs=1e-3)
    one, many = times["model"]
    assert one == f"1 x {int(np.median(encoded.lengths))} pieces"
    assert many == "8 x 16 pieces"


@pytest.mark.parametrize("is_multi_label", [False, True])
def test_logits_are_recovered_from_outputs(is_multi_label):
    """The logits are correct up to a constant, for every kind of output."""
    logits = np.array([[1.0, -2.0, 0.5]])
    odds = np.exp(logits)
    probabilities = odds / (1 + odds) if is_multi_label else odds / odds.sum()
    actual = measuring._logits({"probabilities": probabilities}, is_multi_label=is_multi_label)
    constant = 0 if is_multi_label else np.log(odds.sum())
    np.testing.assert_allclose(actual, logits - constant)
    assert measuring._logits({"score": logits[0]}, is_multi_label=is_multi_label).shape == (3, 1)
    ends = {"start_logits": logits, "end_logits": -logits}
    actual = measuring._logits(ends, is_multi_label=is_multi_label)
    assert actual["start"] is logits and (actual["end"] == -logits).all()


def test_models_are_timed_in_turn(tmp_path):
    model_folder, data = fine_tuned("classification", tmp_path)
    task = task_of(load_model(model_folder).metadata, name="classification", source=model_folder)
    encoded = task.encode(task.read(data, split="dev"), load_model(model_folder).tokenizer)
    calls = []
    models = {name: lambda inputs, name=name: calls.append(name) for name in ("a", "b")}
    seconds(models, task=task, encoded=encoded)
    assert calls[2:6] == ["a", "b", "a", "b"]
