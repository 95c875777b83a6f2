import numpy as np
import pytest

from bert_keras.export.model_folder import export_model
from bert_keras.export.variants import measuring
from bert_keras.export.variants.measuring import score, seconds
from bert_keras.export.verify import loaded
from bert_keras.models import load_model
from bert_keras.runs.evaluate import answers_of_model
from bert_keras.tasks.catalog import task_of
from tests.export.variants.fine_tuned import fine_tuned


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("classification", 100),
        pytest.param("multi-label", 100, marks=pytest.mark.slow),
        pytest.param("regression", 100, marks=pytest.mark.slow),
        pytest.param("squad1", 1, marks=pytest.mark.slow),
        pytest.param("swag", 100, marks=pytest.mark.slow),
        pytest.param("ner", 1, marks=pytest.mark.slow),
    ],
)
def test_an_export_scores_as_its_model_does(tmp_path, name, points, monkeypatch, not_verified):
    monkeypatch.setattr(measuring, "_SECONDS", 0)
    model_folder, data = fine_tuned(name, tmp_path, seed=6)
    written = export_model(model_folder, tmp_path / "name" / "1")
    whole = answers_of_model(name, model=model_folder, data=str(data))
    task, examples = whole.task, whole.examples
    encoded = task.encode(examples, load_model(model_folder).tokenizer)
    with loaded(written) as answer:

        def ask(inputs):
            return answer({"signature": "tensors", "inputs": inputs})

        found = score(ask, task=task, examples=examples, encoded=encoded, stage="test")
        times = seconds({"it": ask}, task=task, encoded=encoded)
    expected = points * whole.scores()[task.metric]
    assert 0 < abs(expected) < 100
    assert found == pytest.approx(expected, abs=1e-3)
    one, many = times["it"]
    assert one == f"1 x {int(np.median(encoded.lengths))} pieces"
    assert many == "8 x 16 pieces"


@pytest.mark.parametrize("each_alone", [False, True])
def test_logits_of_outputs(each_alone):
    """Logits up to a constant, which no scorer reads, of every kind of output."""
    logits = np.array([[1.0, -2.0, 0.5]])
    odds = np.exp(logits)
    probabilities = odds / (1 + odds) if each_alone else odds / odds.sum()
    found = measuring._logits({"probabilities": probabilities}, each_alone=each_alone)
    constant = 0 if each_alone else np.log(odds.sum())
    np.testing.assert_allclose(found, logits - constant)
    assert measuring._logits({"score": logits[0]}, each_alone=each_alone).shape == (3, 1)
    ends = {"start_logits": logits, "end_logits": -logits}
    found = measuring._logits(ends, each_alone=each_alone)
    assert found["start"] is logits and (found["end"] == -logits).all()


def test_all_are_asked_in_turn(tmp_path):
    model_folder, data = fine_tuned("classification", tmp_path)
    task = task_of(load_model(model_folder).card, name="classification", source=model_folder)
    encoded = task.encode(task.read(data, split="dev"), load_model(model_folder).tokenizer)
    asked = []
    asks = {name: lambda inputs, name=name: asked.append(name) for name in ("a", "b")}
    seconds(asks, task=task, encoded=encoded)
    assert asked[2:6] == ["a", "b", "a", "b"]
