"""Runs with a teacher: what they leave, how they go on, which teachers they refuse."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertEncoder, BertMaskedLM, load_model
from bert_keras.runs.distillation import Distillation
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.tasks.catalog import named_task
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from bert_keras.training.callbacks import ProgressBar
from bert_keras.training.curves import read_curves
from tests.runs.test_continue import RECIPE, VOCABULARY, weights, write_records

CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=16, num_layers=2, num_heads=2, max_positions=16
)
TOKENIZER = WordPieceTokenizer(VOCABULARY)
FINETUNE = FinetuneRecipe(batch_size=4, num_epochs=1, learning_rate=1e-3, logs_per_epoch=1)


def saved(folder, Model=BertMaskedLM, *, tokenizer=TOKENIZER, labels=(), **changes):
    heads = {"num_labels": len(labels)} if labels else {}
    model = Model(dataclasses.replace(CONFIG, **changes), **heads)
    return model.save_pretrained(folder, tokenizer=tokenizer, labels=labels)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with records, a teacher and its student."""
    place = tmp_path_factory.mktemp("distilled")
    write_records(place / "records", labels=False)
    keras.utils.set_random_seed(1)
    saved(place / "teacher", initializer_stddev=0.2)
    assert main(["convert", str(place / "teacher"), str(place / "student"), "--layers", "1"]) == 0
    return place


@pytest.fixture(scope="module")
def run(place):
    """The run that the student learnt in."""
    given = {"records": "records", "from": "student", "teacher": "teacher", "output": "run"}
    options = [each for n, folder in given.items() for each in (f"--{n}", str(place / folder))]
    changes = ("batch_size=4", "num_steps=8", "num_warmup_steps=2", "learning_rate=1e-2",
               "dropout_rate=0.1", "steps_per_log=2", "logs_per_checkpoint=2",
               "temperature=1.5", "alpha_soft=4")  # fmt: skip
    assert main(["pretrain", "demo", *options, "--set", *changes]) == 0
    return place / "run"


@pytest.mark.slow
def test_a_run_leaves_the_student_alone(place, run):
    model = load_model(run / "model")
    assert model.config.num_layers == 1 and model.config.num_segments == 0
    trained, given = (weights(folder) for folder in (run / "model", place / "student"))
    assert trained.keys() == given.keys()
    table = "encoder/embeddings/token"
    assert np.abs(trained[table] - given[table]).max() > 1e-3
    state = tf.train.latest_checkpoint(run / "checkpoints")
    stored = [name for name, _ in tf.train.list_variables(state) if name.startswith("model.S")]
    assert len(stored) == len(model.weights)
    logged = read_curves(run / "logs")["train"]
    parts = {name: dict(logged[f"loss/{name}"])[8] for name in ("masked_lm", "masked_lm_soft")}
    total = 2 * parts["masked_lm"] + 4 * parts["masked_lm_soft"] + dict(logged["loss/cosine"])[8]
    assert dict(logged["loss/total"])[8] == pytest.approx(total, rel=1e-5)
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe["distillation"] == {
        "teacher": str(place / "teacher"),
        "temperature": 1.5,
        "alpha_soft": 4.0,
        "alpha_labels": 2.0,
        "alpha_cosine": 1.0,
    }


@pytest.mark.slow
def test_a_run_that_was_killed_continues(place, run, tmp_path, monkeypatch):
    taught = dataclasses.replace(
        Distillation.of_pretraining(place / "teacher"), temperature=1.5, alpha_soft=4.0
    )
    recipe = dataclasses.replace(
        RECIPE, size="tiny", dropout_rate=0.1, initializer_stddev=0.08, num_steps=8
    )
    given = {"records": place / "records", "start": place / "student", "distillation": taught}

    def kill(self, epoch, logs=None):
        if int(self.model.optimizer.iterations) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "on_epoch_end", kill)
        with pytest.raises(KeyboardInterrupt):
            pretrain(recipe, output=tmp_path / "run", **given)
    assert (tmp_path / "run" / "checkpoints" / "step-4.index").is_file()
    pretrain(recipe, output=tmp_path / "run", **given)
    resumed = weights(tmp_path / "run" / "model")
    for name, array in weights(run / "model").items():
        np.testing.assert_array_equal(resumed[name], array, name)
    with pytest.raises(InputError, match=r"holds a run with distillation.teacher '.*teacher', now"):
        pretrain(recipe, output=tmp_path / "run", **{**given, "distillation": None})


def test_teachers_that_do_not_fit_the_records(place, tmp_path, capsys):
    def refusal(teacher, **changes):
        taught = dataclasses.replace(Distillation.of_pretraining(teacher), **changes)
        start = place / "student"
        with pytest.raises(InputError) as error:
            PretrainInputs(RECIPE, records=place / "records", start=start, distillation=taught)
        return str(error.value)

    wide = saved(tmp_path / "wide", hidden_size=24)
    told = f"the teacher {wide} has a hidden size of 24, the student of 16; take another, or alpha_"
    assert told in refusal(wide)
    start, taught = place / "student", Distillation.of_pretraining(wide)
    taught = dataclasses.replace(taught, alpha_cosine=0.0)
    given = {"records": place / "records", "start": start, "distillation": taught}
    assert PretrainInputs(RECIPE, **given).teacher.checkpoint.card.config.hidden_size == 24
    other = WordPieceTokenizer(Vocabulary((*VOCABULARY.pieces[:-1], "other")))
    told = refusal(saved(tmp_path / "other", tokenizer=other))
    assert "(of 25 and 25 pieces; line 25 is the first to differ); take a teacher" in told
    cased = saved(tmp_path / "cased", tokenizer=WordPieceTokenizer(VOCABULARY, lowercase=False))
    assert f"lowercase of the teacher {cased}: False; of the student: True" in refusal(cased)
    causal = saved(tmp_path / "causal", is_causal=True)
    assert f"is_causal of the teacher {causal}: True; of the student: False" in refusal(causal)
    headless = saved(tmp_path / "headless", BertEncoder)
    assert "is a BertEncoder without masked_lm, which a BertMaskedLM learns" in refusal(headless)
    short = saved(tmp_path / "short", max_positions=8)
    assert f"{short} has 8 positions, and texts are of up to 12 pieces; take" in refusal(short)
    one = saved(tmp_path / "one", num_segments=1)
    assert "pairs, which need 2 segments, and the teacher has 1; take" in refusal(one)
    arguments = ["--records", str(place / "records"), "--output", str(tmp_path / "run")]
    nothing = str(tmp_path / "nothing")
    assert main(["pretrain", "demo", *arguments, "--teacher", nothing]) == 2
    assert f"{nothing} does not exist; expected a checkpoint's folder" in capsys.readouterr().err
    assert main(["pretrain", "demo", *arguments, "--set", "alpha_soft=1"]) == 2
    assert "'alpha_soft=1' changes nothing" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "value"), [("temperature", 0.0), ("alpha_soft", -1.0)])
def test_numbers_that_cannot_be(name, value):
    with pytest.raises(InputError, match=rf"{name} is {value}; expected"):
        dataclasses.replace(Distillation.of_task("teacher"), **{name: value})


@pytest.fixture
def table(tmp_path):
    lines = ["text\tlabel", *["w1 w2\tyes", "w3 w4\tno"] * 8]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    return {"train": str(tmp_path / "rows.tsv"), "dev": str(tmp_path / "rows.tsv")}


@pytest.mark.slow
def test_a_classifier_learns_from_a_teacher(place, table, tmp_path):
    keras.utils.set_random_seed(1)
    teacher = saved(tmp_path / "teacher", BertClassifier, labels=("no", "yes"), has_pooler=True)
    task = dataclasses.replace(named_task("classification"), max_length=8)
    scores = finetune(
        task,
        FINETUNE,
        pretrained=place / "student",
        output=tmp_path / "run",
        distillation=Distillation.of_task(teacher),
        files=table,
    )
    model = load_model(tmp_path / "run" / "model")
    assert model.config.num_layers == 1 and model.card.labels == ("no", "yes")
    inputs = {"input_ids": [[2, 6, 7, 3], [2, 8, 9, 3]], "input_mask": [[1] * 4] * 2}
    inputs = {name: np.array(rows) for name, rows in inputs.items()}
    logits = np.asarray(model({**inputs, "segment_ids": 0 * inputs["input_ids"]}), "float64")
    log_total = np.log(np.exp(logits).sum(-1))
    loss = (log_total - [logits[0, 1], logits[1, 0]]).mean()  # on dev that of the labels alone
    assert scores["loss"] == pytest.approx(loss, rel=1e-4)
    logged = read_curves(tmp_path / "run" / "logs")["train"]
    parts = [logged[f"loss/{name}"][-1][1] for name in ("labels", "soft", "total")]
    assert parts[2] == pytest.approx(0.5 * parts[0] + 0.5 * parts[1], rel=1e-5)


def test_teachers_that_do_not_fit_the_task(place, table, tmp_path):
    def refusal(teacher, *, task="classification", files=table, **settings):
        with pytest.raises(InputError) as error:
            TaskRun(
                dataclasses.replace(named_task(task), max_length=8, **settings),
                FINETUNE,
                pretrained=place / "student",
                distillation=Distillation.of_task(teacher),
                files=files,
            )
        return str(error.value)

    def classifier(name, *labels, **changes):
        return saved(tmp_path / name, BertClassifier, labels=labels, **changes)

    told = refusal(classifier("swapped", "yes", "no"))
    assert f"labels of the teacher {tmp_path}/swapped: yes, no; of the student: no, yes" in told
    longer = Vocabulary((*SPECIAL_PIECES, *(f"x{number}" for number in range(20))))
    other = classifier("other", "no", "yes", tokenizer=WordPieceTokenizer(longer))
    assert "line 6 is the first to differ); take a teacher of the same" in refusal(other)
    words = place / "teacher"
    assert "is a BertMaskedLM without classification, which a BertClassifier" in refusal(words)
    (tmp_path / "words.conll").write_text("w1 B-LOC\nw2 O\n\n" * 2)
    conll = dict.fromkeys(("train", "dev"), str(tmp_path / "words.conll"))
    told = refusal(words, task="ner-features", files=conll, layers="last")
    assert "ner-features trains no encoder and takes no teacher; leave --teacher out" in told
