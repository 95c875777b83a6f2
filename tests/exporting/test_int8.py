"""Models in int8 are measured, scored like their model, and refused if they lose too much."""

import dataclasses
import json

import pytest

from bert_keras import BertEncoder
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.evaluate import predict_examples
from bert_keras.runs.export import compare_with_float32, export, measure_score
from bert_keras.serving.litert import load_exported
from bert_keras.serving.version_folder import METADATA
from tests.exporting.fine_tuned import TABLES, fine_tuned


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("classification", tmp_path_factory.mktemp("run"))


FIGURES = {
    "float32": {"num_bytes": 100, "score": 90.0},
    "int8": {"num_bytes": 50, "score": 88.0},
}


def test_int8_may_lose_some_points(capsys):
    compare_with_float32(FIGURES, metric="accuracy", max_score_drop=2)
    assert capsys.readouterr().out.splitlines() == [
        "float32:  100 bytes on disk; accuracy 0.9000",
        "int8:     50 bytes on disk; accuracy 0.8800",
    ]
    with pytest.raises(InputError):
        compare_with_float32(FIGURES, metric="accuracy", max_score_drop=1.9)


@pytest.mark.slow
def test_int8_is_measured_and_written(tmp_path, run):
    model, data = run
    written = export(model, tmp_path / "name" / "3", variant="int8", data=data)
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["3"]
    metadata = json.loads((written / METADATA).read_text("utf-8"))
    assert metadata["card"]["model"] == "BertClassifier"
    stored, scored_on = metadata["variant"], {"task": "classification", "metric": "accuracy"}
    assert (stored["name"], stored["scored_on"]) == ("int8", {**scored_on, "examples": 48})
    for name in ("float32", "int8"):
        figures = stored["figures"][name]
        assert figures["num_bytes"] > 0 and 0 < figures["score"] < 100
    assert load_exported(written).predict(["a film"])[0]["labels"] == ["no", "yes"]


def test_models_without_a_scoring_task_are_refused(tmp_path, run):
    folder, data = run
    model = load_model(folder)

    encoder = BertEncoder(model.metadata.config)
    encoder.tokenizer = model.tokenizer
    model.metadata = dataclasses.replace(model.metadata, model="BertTokenClassifier", task={})
    for source, settings in (
        (folder, {"task": "sst2-of-mine"}),
        (folder, {"changes": {"text_columns": ("review",)}}),
        (encoder, {"task": "classification"}),
        (model, {}),
    ):
        with pytest.raises(InputError):
            export(source, tmp_path / "name" / "1", variant="int8", data=data, **settings)


@pytest.mark.parametrize("name", [*TABLES, "squad1", "ner"])
@pytest.mark.slow
def test_an_export_has_the_score_of_its_model(tmp_path, name):
    model, data = fine_tuned(name, tmp_path, seed=6)
    written = export(model, tmp_path / "name" / "1", format="litert")
    task, examples, predicted = predict_examples(model, data, task=name)
    encoded = task.encode(examples, load_model(model).tokenizer)
    actual = measure_score(load_exported(written), task, examples, encoded)
    expected = 100 * task.score(examples, predicted)[task.metric]
    assert 0 < abs(expected) < 100
    assert actual == pytest.approx(expected, abs=1e-3)
