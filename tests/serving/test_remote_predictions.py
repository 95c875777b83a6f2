"""`predict --server` writes the same file as `predict --model` with the served model."""

import functools
import json

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.exporting.export import export
from bert_keras.models import BertClassifier
from bert_keras.models.pretrained import save_model
from bert_keras.runs.evaluate import model_predictions
from bert_keras.serving.server import running_server
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.serving.scripted import json_reply, scripted_server

WORDS = ("good", "bad", "film", "a")
TEXTS = [" ".join(words) for n in range(10) for words in [[WORDS[n % 4], WORDS[n % 3], "film"]]]
LABELS = {
    "classification": ("neg", "pos", "so so"),
    "multi-label": ("city", "sport", "tree"),
    "regression": ("score",),
    "sst2": ("0", "1"),
    "stsb": ("score",),
}
PROBLEM_TYPES = {
    "multi-label": "multi_label_classification",
    "regression": "regression",
    "stsb": "regression",
}
PAIRS = ("stsb", "multi-label")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A model folder and a test file for each task."""
    folder = tmp_path_factory.mktemp("tasks")
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_layers=1, num_heads=1, max_positions=16
    )
    keras.utils.set_random_seed(3)
    for name, labels in LABELS.items():
        columns = {"stsb": ("sentence1", "sentence2"), "sst2": ("sentence",)}.get(
            name, ("text", "text_pair") if name in PAIRS else ("text",)
        )
        model = BertClassifier(config, num_labels=len(labels))
        for weight in model.trainable_weights:  # answers that differ from text to text
            weight.assign(np.random.default_rng(len(name)).normal(0, 0.7, weight.shape))
        metadata = ModelMetadata(
            model="BertClassifier",
            config=config,
            lowercase=True,
            max_length=12,
            text_columns=columns,
            labels=labels,
            problem_type=PROBLEM_TYPES.get(name, ""),
        )
        save_model(model, folder / name, metadata=metadata, vocabulary=vocabulary)
        rows = ["\t".join(columns), *("\t".join([t, "a bad film"][: len(columns)]) for t in TEXTS)]
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    (folder / "lines.txt").write_text("\n".join(TEXTS) + "\n")
    return folder


def settings(name):
    columns = ["text_columns=text,text_pair"] if name == "multi-label" else []
    return [*columns, *([] if name in ("sst2", "stsb") else ["long_texts=truncate"])]


def row(name, prediction):
    """The prediction of an exported model: float32, all labels, the predicted ones as a text."""
    if LABELS[name] == ("score",):
        return float(np.float32(prediction.label))
    probabilities = [float(p) for p in np.float32(prediction.probabilities)]
    label = prediction.label if isinstance(prediction.label, str) else ",".join(prediction.label)
    return {"label": label, "labels": LABELS[name], "probabilities": probabilities}


def predict(name, *asked, data, output):
    changes = ["--set", *settings(name)] if settings(name) else []
    command = ["predict", name, *asked, "--data", str(data), "--output", str(output), *changes]
    return main(list(map(str, command)))


@functools.cache
def answering(name, root):
    """A reply function with the model's predictions for the texts of the test file."""
    answers = model_predictions(
        name,
        model=root / name,
        data=str(root / f"{name}.tsv"),
        split="test",
        changes=[*settings(name), "max_length=12"],
    )
    rows = {
        example.texts: row(name, prediction)
        for example, prediction in zip(answers.examples, answers.predictions, strict=True)
    }

    def reply(method, path, body):
        instances = json.loads(body)["instances"]
        return json_reply({"predictions": [rows[tuple(each.values())] for each in instances]})

    return reply


@pytest.mark.parametrize(
    "name",
    ["classification", "multi-label", "stsb"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("regression", "sst2")],
)
def test_the_prediction_file_equals_that_of_the_local_model(root, tmp_path, name, capsys):
    local, remote = tmp_path / "local.tsv", tmp_path / "remote.tsv"
    data = root / f"{name}.tsv"
    changes = [*settings(name), "max_length=12"]
    command = ["predict", name, "--model", root / name, "--data", data, "--output", local]
    assert main([*map(str, command), "--set", *changes]) == 0
    output = capsys.readouterr().out
    with scripted_server(answering(name, root)) as server:
        url = f"{server.url}/v1/models/m"
        assert predict(name, "--server", url, data=data, output=remote) == 0
        instances = server.documents[0]["instances"]
    assert [*instances[0]] == (["text", "text_pair"] if name in PAIRS else ["text"])
    assert remote.read_text() == local.read_text()
    assert len(set(remote.read_text().splitlines())) == 1 + len(TEXTS)
    assert capsys.readouterr().out == output.replace("local.tsv", "remote.tsv")


def test_a_file_with_one_text_on_each_line(root, tmp_path):
    with scripted_server(answering("classification", root)) as server:
        url = f"{server.url}/v1/models/m"
        for data in (root / "lines.txt", root / "classification.tsv"):
            output = tmp_path / data.name
            assert predict("classification", "--server", url, data=data, output=output) == 0
    assert (tmp_path / "lines.txt").read_text() == (tmp_path / "classification.tsv").read_text()


@pytest.mark.parametrize(
    ("name", "data", "answer", "message"),
    [
        ("squad1", "dev.json", {}, "the task is squad1; --server supports only tasks that"),
        ("ner", "test.txt", {}, "the task is ner; --server supports only tasks that"),
        ("multi-label", "lines.txt", {}, "lines.txt contains one text on each line; multi-label"),
        ("classification", "multi-label.tsv", 1.5, "expected label, labels and probabilities"),
        ("regression", "regression.tsv", {"label": "a"}, "are not those of a regression model"),
        ("classification", "classification.tsv",
         {"label": "a", "labels": ["a", "b"], "probabilities": [0.9, 0.8]}, "that sum to 1"),
        ("multi-label", "multi-label.tsv",
         {"label": "b", "labels": ["a", "b"], "probabilities": [0.9, 0.8]},
         "expected the label 'a,b' instead of 'b'"),
        ("sst2", "sst2.tsv",
         {"label": "a", "labels": ["a", "b"], "probabilities": [0.75, 0.25]},
         "has the labels a, b; sst2 has 0, 1"),
    ],
)  # fmt: skip
def test_unsuitable_predictions_are_refused(root, tmp_path, capsys, name, data, answer, message):
    def reply(method, path, body):
        return json_reply({"predictions": [answer] * len(json.loads(body)["instances"])})

    output = tmp_path / "out.tsv"
    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        changes = ["--set", *settings(name)] if name in LABELS and settings(name) else []
        command = ["predict", name, "--server", url, "--data", str(root / data), "--output"]
        assert main([*command, str(output), *changes]) == 2
    errors = capsys.readouterr().err
    assert message in errors and errors.count("\n") == 1
    assert not output.exists()


def test_label_names_of_a_converted_model_are_mapped_to_those_of_the_task(root, tmp_path):
    answer = {"label": "LABEL_1", "labels": ["LABEL_0", "LABEL_1"], "probabilities": [0.25, 0.75]}

    def reply(method, path, body):
        return json_reply({"predictions": [answer] * len(json.loads(body)["instances"])})

    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        assert predict("sst2", "--server", url, data=root / "sst2.tsv", output=tmp_path / "o") == 0
    assert (tmp_path / "o").read_text().splitlines()[:3] == ["index\tprediction", "0\t1", "1\t1"]


def test_no_file_is_written_without_a_server_or_after_an_error(root, tmp_path, capsys):
    data, output = root / "sst2.tsv", tmp_path / "out.tsv"

    def reply(method, path, body):
        return json_reply({"error": "too many instances"}, status=400)

    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        assert predict("sst2", "--server", url, data=data, output=output) == 2
    assert "returned 400: too many instances" in capsys.readouterr().err
    assert predict("sst2", "--server", url, data=data, output=output) == 2
    assert "no server responds at" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sst2", "multi-label", "stsb"])
def test_a_real_export_and_server(root, tmp_path, name):
    export(root / name, tmp_path / "m" / "1")
    data, files = root / f"{name}.tsv", (tmp_path / "local.tsv", tmp_path / "remote.tsv")
    command = ["predict", name, "--model", root / name, "--data", data, "--output", files[0]]
    assert main([*map(str, command), "--set", *settings(name), "max_length=12"]) == 0
    with running_server(tmp_path / "m") as url:
        server = f"{url}/v1/models/m"
        assert predict(name, "--server", server, data=data, output=files[1]) == 0
    local, remote = (np.loadtxt(f, dtype=str, delimiter="\t", skiprows=1) for f in files)
    assert (local[:, 1] == remote[:, 1]).all() or LABELS[name] == ("score",)
    numbers = [
        t[:, 1 if LABELS[name] == ("score",) else 2 :].astype(float) for t in (local, remote)
    ]
    np.testing.assert_allclose(*numbers, atol=2e-3 if name == "stsb" else 2e-6)
