"""Distillation: saved models, continued runs and unsuitable teachers."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from bert_keras import BertClassifier, BertEncoder, BertMaskedLM
from bert_keras.cli import main
from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.distillation import OF_PRETRAINING, Distillation
from bert_keras.runs.pretrain import build_pretrainer, pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from bert_keras.training.tensorboard import read_curves
from tests.factories import tiny_config
from tests.runs.test_continue import RECIPE, VOCABULARY, records_in, weights

CONFIG = tiny_config(max_positions=16)
TOKENIZER = WordPieceTokenizer(VOCABULARY)
FINETUNE = FinetuneRecipe(batch_size=4, num_epochs=1, learning_rate=1e-3, logs_per_epoch=1)


def saved(folder, Model=BertMaskedLM, *, tokenizer=TOKENIZER, labels=(), **changes):
    heads = {"num_labels": len(labels)} if labels else {}
    model = Model(dataclasses.replace(CONFIG, **changes), **heads)
    return model.save_pretrained(folder, tokenizer=tokenizer, labels=labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with records, a teacher and its student."""
    folder = tmp_path_factory.mktemp("distilled")
    records_in(folder, labels=False)
    keras.utils.set_random_seed(1)
    saved(folder / "teacher", initializer_stddev=0.2)
    assert main(["convert", str(folder / "teacher"), str(folder / "student"), "--layers", "1"]) == 0
    return folder


@pytest.mark.slow
def test_a_run_saves_only_the_student(folder, tmp_path):
    paths = {"records": folder / "records", "pretrained": folder / "student"}
    settings = {"teacher": folder / "teacher", "temperature": 1.5, "alpha_soft": 4}
    run = tmp_path / "run"
    pretrain(RECIPE, **paths, **settings, output=run)
    model = load_model(run / "model")
    assert model.config.num_layers == 1 and model.config.num_segments == 0
    trained, arguments = (weights(path) for path in (run / "model", folder / "student"))
    assert trained.keys() == arguments.keys()
    table = "encoder/embeddings/token"
    assert np.abs(trained[table] - arguments[table]).max() > 1e-3
    stored = np.load(run / "checkpoints" / "step-8.npz").files
    assert sum(name.startswith("model/") for name in stored) == len(model.weights)
    logged = read_curves(run / "logs")["train"]
    parts = {name: dict(logged[f"loss/{name}"])[8] for name in ("masked_lm", "masked_lm_soft")}
    total = 2 * parts["masked_lm"] + 4 * parts["masked_lm_soft"] + dict(logged["loss/cosine"])[8]
    assert dict(logged["loss/total"])[8] == pytest.approx(total, rel=1e-5)
    recipe = json.loads((run / "recipe.json").read_text())
    values = {"temperature": 1.5, "alpha_soft": 4.0, "alpha_labels": 2.0, "alpha_cosine": 1.0}
    assert recipe["distillation"] == {"teacher": str(folder / "teacher"), **values}


def test_unsuitable_teachers_of_pretraining_are_refused(folder, tmp_path):
    def student_of(teacher, **changes):
        distillation = Distillation(teacher=str(teacher), **OF_PRETRAINING | changes)
        paths = {"records": folder / "records", "pretrained": folder / "student"}
        return build_pretrainer(PretrainInputs(RECIPE, **paths, teacher=distillation))

    with pytest.raises(InputError):
        student_of(folder / "teacher", alpha_soft=-1.0)
    wide = saved(tmp_path / "wide", hidden_size=24)
    assert student_of(wide, alpha_cosine=0.0).teacher.config.hidden_size == 24
    other = WordPieceTokenizer(Vocabulary((*VOCABULARY.tokens[:-1], "other")))
    cased = WordPieceTokenizer(VOCABULARY, lowercase=False)
    for teacher in (
        *(wide, tmp_path / "nothing", saved(tmp_path / "headless", BertEncoder)),
        saved(tmp_path / "other", tokenizer=other),
        saved(tmp_path / "cased", tokenizer=cased),
        saved(tmp_path / "causal", is_causal=True),
        saved(tmp_path / "short", max_positions=8),
    ):
        with pytest.raises(InputError):
            student_of(teacher)


@pytest.fixture
def table(tmp_path):
    lines = ["text\tlabel", *["good film\tyes", "bad river\tno"] * 8]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    return dict.fromkeys(("train", "dev"), str(tmp_path / "rows.tsv"))


def test_unsuitable_teachers_of_a_task_are_refused(folder, table, tmp_path):
    def check_refusal(teacher, *, task="classification", files=table, **settings):
        task = dataclasses.replace(named_task(task), max_length=8, **settings)
        with pytest.raises(InputError):
            TaskRun(task, FINETUNE, pretrained=folder / "student", teacher=teacher, data=files)

    def classifier(name, *labels, **changes):
        return saved(tmp_path / name, BertClassifier, labels=labels, **changes)

    check_refusal(classifier("swapped", "yes", "no"))
    longer = Vocabulary((*SPECIAL_TOKENS, *(f"x{number}" for number in range(13))))
    tokenizer, words = WordPieceTokenizer(longer), folder / "teacher"
    check_refusal(classifier("other", "no", "yes", tokenizer=tokenizer))
    check_refusal(words)
    (tmp_path / "words.conll").write_text("good B-LOC\nfilm O\n\n" * 2)
    conll = dict.fromkeys(("train", "dev"), str(tmp_path / "words.conll"))
    check_refusal(words, task="ner-features", files=conll, layers="last")
