"""Pretraining and fine-tuning of a small model, and wrong inputs."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from bert_keras.checkpoints.native import read_metadata
from bert_keras.cli import main
from bert_keras.data.records import pretraining_dataset
from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.evaluate import evaluate
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import build_pretrainer, pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import FinetuneRecipe, PretrainRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import Muon
from bert_keras.training.tensorboard import read_curves
from tests.factories import random_model, stopped_by_sigterm, tiny_vocabulary, write_records

PRETRAIN = PretrainRecipe(
    size="L-1_H-128_A-2",
    batch_size=16,
    num_steps=8,
    num_warmup_steps=2,
    learning_rate=1e-3,
    initializer_stddev=0.08,  # with 0.02 a few steps have no effect at a hidden size of 128
    steps_per_log=2,
    logs_per_checkpoint=2,
)
TASK = named_task("classification")
FINETUNE = FinetuneRecipe(batch_size=8, num_epochs=8, learning_rate=5e-4, logs_per_epoch=2)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder, split = tmp_path_factory.mktemp("records"), {"shards": 2, "held_out_rate": 0.34}
    return write_records(folder, max_length=32, max_predictions=5, **split)


@pytest.fixture(scope="module")
def pretrained(records, tmp_path_factory):
    output = tmp_path_factory.mktemp("pretrain") / "run"
    return output, pretrain(PRETRAIN, records=records, output=output).scores


@pytest.fixture
def table(tmp_path):
    words = ["the", "good", "bad", "was", "a"]
    for name, seed in (("train", 1), ("dev", 2)):
        random = np.random.default_rng(seed)
        lines = ["text\tlabel"]
        for _ in range(48):
            label = random.choice(["film", "river", "bank"], p=[0.4, 0.3, 0.3])
            lines.append(f"{random.choice(words)} is {label} {random.choice(words)}\tis {label}")
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return {name: str(tmp_path / f"{name}.tsv") for name in ("train", "dev")}


@pytest.mark.slow
def test_the_optimizer_is_that_of_the_recipe(records):
    def optimizer_of(**changes):
        inputs = PretrainInputs(dataclasses.replace(PRETRAIN, **changes), records=records)
        return build_pretrainer(inputs).optimizer

    changes = {"schedule": "warmup-stable-decay", "learning_rate": 4e-3, "beta_2": 0.9}
    optimizer = optimizer_of(optimizer="muon", **changes)
    assert isinstance(optimizer, Muon) and optimizer.beta_2 == 0.9
    optimizer.iterations.assign(5)
    assert float(optimizer.learning_rate) == pytest.approx(4e-3)  # a linear decay would be at 3/8
    assert not optimizer_of().bias_correction
    assert optimizer_of(bias_correction=True).bias_correction


def test_pretraining_writes_a_model_scores_and_curves(pretrained):
    output, scores = pretrained
    model = load_model(output / "model")
    assert scores["parameters"] == model.count_params()
    unigram = scores["unigram_masked_lm_loss"]
    assert 0 < scores["copying_masked_lm_loss"] < unigram < np.log(model.config.vocab_size)
    assert 0 < scores["held_out_masked_lm_loss"] < 1.2 * np.log(model.config.vocab_size)
    assert 0 <= scores["held_out_next_sentence_accuracy"] <= 1
    assert json.loads((output / "scores.json").read_text()) == scores
    assert f"| parameters | {scores['parameters']} |" in (output / "model/README.md").read_text()
    assert read_metadata(output / "model").max_length == 32
    assert list((output / "logs" / "held_out").iterdir())


def test_held_out_scores_equal_those_of_keras_evaluate(pretrained, records):
    output, scores = pretrained
    model = load_model(output / "model")
    model.compile(loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    files = sorted(map(str, records.glob("held-out*")))
    held_out = pretraining_dataset(files, batch_size=10_000, drop_remainder=False)
    keras_scores = model.evaluate(held_out, verbose=0, return_dict=True)
    for name in itertools.product(("masked_lm", "next_sentence"), ("loss", "accuracy")):
        expected = keras_scores["_".join(name)]
        assert scores["_".join(("held_out", *name))] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stops"), [("tiny", (1, 4, 8)), ("modern-tiny", (5,))])
def test_a_stop_at_any_step_changes_no_weight(records, tmp_path, size, stops):
    """A checkpoint is saved every 8 steps, of which 4 are an epoch."""
    changes = {"size": size, "num_steps": 12, "steps_per_log": 4, "dropout_rate": 0.1}
    recipe = dataclasses.replace(PRETRAIN, **changes)

    def weights(folder, *, stop):
        if stop:
            with stopped_by_sigterm(steps_left=recipe.num_steps - stop):
                pretrain(recipe, records=records, output=folder)
        pretrain(recipe, records=records, output=folder)
        return (folder / "model" / "weights.safetensors").read_bytes()

    unbroken = weights(tmp_path / "unbroken", stop=0)
    for stop in stops:
        assert weights(tmp_path / f"stop-{stop}", stop=stop) == unbroken, stop


def test_a_finished_run_is_not_repeated_and_other_settings_are_refused(pretrained, records):
    output, scores = pretrained
    arguments = {"records": records, "output": output}
    assert pretrain(PRETRAIN, **arguments).scores == scores
    with pytest.raises(InputError):
        pretrain(PRETRAIN, **arguments, seed=2)


@pytest.mark.slow
def test_finetuning_scores_better_than_the_majority_class(pretrained, table, tmp_path):
    paths = {"pretrained": pretrained[0] / "model", "data": table, "output": tmp_path / "run"}
    scores = finetune(TASK, FINETUNE, **paths).scores
    assert scores["accuracy"] > 0.9 > scores["majority_accuracy"]
    metadata = read_metadata(tmp_path / "run" / "model")
    assert metadata.labels == ("is bank", "is film", "is river")
    assert metadata.text_columns == ("text",)
    assert load_model(tmp_path / "run" / "model").num_labels == 3
    curves = read_curves(tmp_path / "run" / "logs")
    best = max(accuracy for _, accuracy in curves["held_out"]["score/accuracy"])
    assert best == pytest.approx(scores["accuracy"])
    assert len(curves["train"]["gradient_norm/heads"]) == FINETUNE.num_epochs


def test_random_initial_weights_differ_from_the_pretrained_weights(pretrained, table, capsys):
    output, _ = pretrained
    pretrained_weights = load_model(output / "model").encoder.get_weights()[0]
    for weights, same in (("random", False), ("pretrained", True)):
        arguments = {"pretrained": output / "model", "data": table, "initial_weights": weights}
        run = TaskRun(TASK, FINETUNE, **arguments)
        assert np.array_equal(run.model.encoder.get_weights()[0], pretrained_weights) == same
        report = capsys.readouterr().out
        assert bool(report) == same == ("encoder (21 weights), pooler" in report)


def test_limited_training_examples_are_evenly_spaced(pretrained, table):
    start = {"pretrained": pretrained[0] / "model", "data": table}
    unlimited, some, more = (
        TaskRun(TASK, FINETUNE, **start, max_train_examples=count) for count in (0, 5, 10_000)
    )
    step = len(unlimited.examples) / 5
    assert some.examples == [unlimited.examples[int(number * step)] for number in range(5)]
    assert (len(some.rows), some.task.labels) == (5, unlimited.task.labels)
    assert more.examples == unlimited.examples


def test_a_model_and_its_folder_have_the_same_scores(tmp_path, capsys):
    model = random_model("BertClassifier", labels=("no", "yes"), text_columns=())
    model.save_pretrained(tmp_path / "model", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    data, page = tmp_path / "dev.tsv", tmp_path / "page.html"
    data.write_text("text\tlabel\n" + "good film\tyes\nbad film\tno\n" * 4)
    settings = {"data": data, "changes": {"max_length": 8}, "task": "classification"}
    scores = evaluate(tmp_path / "model", **settings)
    assert "examples    8" in capsys.readouterr().err
    assert evaluate(load_model(tmp_path / "model"), report=page, **settings) == scores
    written = [f"<li>Data: {data}</li>", "<li>Model: a BertClassifier in memory</li>", "± 0."]
    assert all(part in page.read_text("utf-8") for part in written)


@pytest.mark.slow
def test_a_dry_run_prints_estimates_and_writes_nothing(records, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = f"pretrain demo --records {records} --set size=tiny num_steps=500 --dry-run"
    assert main(command.split()) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["model"].endswith("parameters, BertPretrainer")
    assert rows["records"].startswith("2 files of 32 positions and 5 predictions")
    assert rows["steps"] == "500 of 16 sequences on 1 replica"
    assert "million in 8,000 sequences" in rows["tokens"]
    assert {"step", "time", "memory", "disk"} < set(rows)
    assert not list(tmp_path.iterdir())
