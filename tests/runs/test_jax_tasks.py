"""Tasks and commands with JAX where TensorFlow cannot be imported."""

import json

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder
from bert_keras.cli import main
from bert_keras.downstream.catalog import task_of
from bert_keras.downstream.predictor import Predictor
from bert_keras.models.loading import load_model
from bert_keras.runs.task_run import TaskRun
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.tensorboard import read_curves
from tests.factories import tiny_config, tiny_vocabulary
from tests.under_jax import without_tensorflow

pytestmark = pytest.mark.slow
KILL = """
import os
from bert_keras.training.callbacks import ProgressBar

ProgressBar.on_epoch_begin = lambda self, epoch, logs=None: os._exit(0) if epoch else None
"""
TEXTS = 2 * ("the river was good", "a bad film", "the bank is a good bank .", "the film was bad")
FILES = {
    "classification": ("tsv", "text\tlabel", *(f"{t}\t{n % 2}" for n, t in enumerate(TEXTS))),
    "ner": ("conll", *(f"{text.replace(' ', ' O' + chr(10))} B-X\n" for text in TEXTS)),
}
ROWS = (f"{text}\tthe river\t{n}" for n, text in enumerate(TEXTS))
FILES["sentence-pairs"] = ("tsv", "sentence1\tsentence2\tscore", *ROWS)
ANSWER = {"text": "a", "answer_start": 0}
QUESTIONS = [
    {"context": f"a {text}", "qas": [{"id": str(n), "question": "is it", "answers": [ANSWER]}]}
    for n, text in enumerate(TEXTS)
]
SQUAD = {"version": "1.1", "data": [{"title": "", "paragraphs": QUESTIONS}]}
FILES |= {"ner-features": FILES["ner"], "squad1": ("json", json.dumps(SQUAD))}
SETTINGS = {
    "ner-features": {"layers": "weighted-sum-all", "lstm_units": 4},
    "squad1": {"max_question_length": 4, "max_answer_length": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data of each task, and a model of it with which the fine-tuning starts."""
    pytest.importorskip("jax")
    folder = tmp_path_factory.mktemp("tasks")
    keras.utils.set_random_seed(0)
    tokenizer = WordPieceTokenizer(tiny_vocabulary())
    encoder = BertEncoder(tiny_config(initializer_stddev=0.2))
    encoder.save_pretrained(folder / "encoder", tokenizer=tokenizer)
    for name, (suffix, *lines) in FILES.items():
        data = folder / f"{name}.{suffix}"
        data.write_text("\n".join(lines) + "\n")
        files, settings = {"train": data, "dev": data}, {"max_length": 16, **SETTINGS.get(name, {})}
        run = TaskRun(name, pretrained=folder / "encoder", data=files, **settings)
        run.model.metadata = run.metadata
        run.model.save_pretrained(folder / name, tokenizer=tokenizer)
    return folder


def finetune(folder, name: str, *, to: str) -> list[str]:
    changes = {"dropout_rate": 0, "max_length": 16, "num_epochs": 2, "learning_rate": 1e-3}
    changes |= {"batch_size": 4, **SETTINGS.get(name, {})}
    data, teacher = str(folder / f"{name}.{FILES[name][0]}"), ["--teacher", str(folder / name)]
    return [
        *("finetune", name, "--from", str(folder / name), "--train", data, "--dev", data),
        *("--output", str(folder / to / name), "--set", *(f"{n}={v}" for n, v in changes.items())),
        *(teacher if name == "classification" else ()),
    ]


def outputs(folder, name: str, *, of: str) -> tuple[list[np.ndarray], dict]:
    """Returns the logits of all rows, and the scores."""
    model = load_model(folder / of / name / "model")
    task = task_of(model.metadata, name=name, source=of)
    examples = task.read(folder / f"{name}.{FILES[name][0]}", split="dev")
    rows, _ = Predictor(model)(task.encode_to_score(examples, model.tokenizer))
    scores = json.loads((folder / of / name / "scores.json").read_text())
    return [np.asarray(each) for each in keras.tree.flatten(rows)], scores


def test_tasks_have_the_scores_of_tensorflow_also_after_a_kill(folder):
    without_tensorflow([finetune(folder, "classification", to="jax")], start=KILL)
    assert not (folder / "jax" / "classification" / "scores.json").exists()
    eight = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}  # for batches of four rows
    without_tensorflow([finetune(folder, name, to="jax") for name in FILES], **eight)
    for name in FILES:
        assert main(finetune(folder, name, to="tensorflow")) == 0
        ours, scores = outputs(folder, name, of="tensorflow")
        theirs, jax_scores = outputs(folder, name, of="jax")
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=name)
        assert jax_scores == pytest.approx(scores, abs=1e-4), name
        curves = [read_curves(folder / each / name / "logs") for each in ("tensorflow", "jax")]
        for tag in {*curves[0]["train"]} & {"loss/total", "accuracy"}:
            both = [each["train"][tag] for each in curves]
            np.testing.assert_allclose(*both, atol=1e-4, err_msg=f"{name} {tag}")


def test_commands(folder):
    model = str(folder / "classification")
    common = (model, "--data", f"{model}.tsv")
    commands = [
        ["list", "tasks"],
        ["evaluate", *common],
        ["predict", *common, "--output", str(folder / "predictions.tsv")],
        ["convert", model, str(folder / "converted"), "--format", "huggingface"],
        ["inspect", str(folder / "encoder"), "a bad film", "-o", str(folder / "page.html")],
    ]
    without_tensorflow(commands)
    assert len((folder / "predictions.tsv").read_text().splitlines()) == 1 + len(TEXTS)
    refused = [
        ["export", model, "name", "--output", str(folder)],
        ["convert", model, str(folder / "google"), "--format", "google"],
        ["evaluate", *common[:-1], "tfds:glue/cola"],
    ]
    errors = without_tensorflow(refused, code=2).splitlines()
    assert sum("tensorflow" in error for error in errors) == len(refused)
