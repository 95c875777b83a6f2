"""Records to a pretrained model to a classifier, small but whole; and what goes wrong."""

import dataclasses
import json

import numpy as np
import pytest

from bert_keras.checkpoints.native import read_card
from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import FinetuneRecipe, PretrainRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.tasks.catalog import named_task
from bert_keras.training.curves import read_curves
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab.train_vocab import train_vocabulary

PRETRAIN = PretrainRecipe(
    size="tiny",
    batch_size=16,
    num_steps=8,
    num_warmup_steps=2,
    learning_rate=1e-3,
    initializer_stddev=0.08,  # at a hidden size of 128 a few steps of 0.02 teach nothing
    steps_per_log=2,
    logs_per_checkpoint=2,
)
TASK = named_task("classification")
FINETUNE = FinetuneRecipe(batch_size=8, num_epochs=8, learning_rate=5e-4, logs_per_epoch=2)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    words = ["red", "blue", "green", "old", "young", "tall", "warm", "cold", "soft", "hard"]
    random = np.random.default_rng(0)
    documents = [
        "\n".join(
            f"Things of kind {kind} are {random.choice(words)} and {random.choice(words)}."
            for _ in range(30)
        )
        for kind in ("stone", "water", "cloth", "metal", "paper", "glass")
    ]
    (folder / "corpus.txt").write_text("\n\n".join(documents))
    vocabulary = train_vocabulary([folder / "corpus.txt"], size=200)
    settings = BuildSettings(
        max_length=32, max_predictions=5, duplicates=3, shards=2, held_out_rate=0.34
    )
    build([folder / "corpus.txt"], vocabulary=vocabulary, output=folder / "out", settings=settings)
    return folder / "out"


@pytest.fixture(scope="module")
def pretrained(records, tmp_path_factory):
    output = tmp_path_factory.mktemp("pretrain") / "run"
    scores = pretrain(PRETRAIN, records=records, output=output)
    return output, scores


@pytest.fixture
def table(tmp_path):
    words = ["red", "blue", "green", "old", "young", "tall"]
    for name, seed in (("train.tsv", 1), ("dev.tsv", 2)):
        random = np.random.default_rng(seed)
        lines = ["text\tlabel"]
        for _ in range(48):
            label = random.choice(["stone", "water", "cloth"], p=[0.4, 0.3, 0.3])
            lines.append(f"{random.choice(words)} kind {label} {random.choice(words)}\tis {label}")
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_pretraining_leaves_a_model_scores_and_curves(pretrained):
    output, scores = pretrained
    model = load_model(output / "model")
    assert scores["parameters"] == model.count_params()
    unigram = scores["unigram_masked_lm_loss"]
    assert 0 < scores["copying_masked_lm_loss"] < unigram < np.log(model.config.vocab_size)
    assert 0 < scores["held_out_masked_lm_loss"] < 1.2 * np.log(model.config.vocab_size)
    assert 0 <= scores["held_out_next_sentence_accuracy"] <= 1
    assert json.loads((output / "scores.json").read_text()) == scores
    assert read_card(output / "model").max_length == 32
    assert list((output / "logs" / "held_out").iterdir())


def test_held_out_scores_equal_what_keras_evaluates(pretrained, records):
    from bert_keras.data.records import pretraining_dataset
    from bert_keras.training.losses import pretraining_losses, pretraining_metrics

    output, scores = pretrained
    model = load_model(output / "model")
    model.compile(loss=pretraining_losses(), weighted_metrics=pretraining_metrics())
    whole = pretraining_dataset(
        sorted(map(str, records.glob("held-out*"))), batch_size=10_000, drop_remainder=False
    )
    keras_scores = model.evaluate(whole, verbose=0, return_dict=True)
    for ours, theirs in (
        ("held_out_masked_lm_loss", "masked_lm_loss"),
        ("held_out_masked_lm_accuracy", "masked_lm_accuracy"),
        ("held_out_next_sentence_loss", "next_sentence_loss"),
        ("held_out_next_sentence_accuracy", "next_sentence_accuracy"),
    ):
        assert scores[ours] == pytest.approx(keras_scores[theirs], rel=1e-4)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(pretrained, records, tmp_path):
    _, scores = pretrained
    assert pretrain(PRETRAIN, records=records, output=tmp_path / "again") == scores


def test_a_finished_run_is_not_run_again_and_another_is_refused(pretrained, records):
    output, scores = pretrained
    assert pretrain(PRETRAIN, records=records, output=output) == scores
    other = PretrainRecipe(**{**PRETRAIN.__dict__, "seed": 2})
    with pytest.raises(InputError, match="holds a run with seed 1, now 2: choose another output"):
        pretrain(other, records=records, output=output)
    other = PretrainRecipe(
        size="tiny", batch_size=8, num_steps=9, num_warmup_steps=1, learning_rate=1e-4
    )
    with pytest.raises(InputError, match=r"holds a run with( [^;]+;){4} and \d+ more: choose"):
        pretrain(other, records=records, output=output)


def test_foreign_folders_are_not_written_into(records, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="holds something else; choose a new or empty output"):
        pretrain(PRETRAIN, records=records, output=tmp_path)


@pytest.mark.slow
def test_finetuning_learns_and_is_scored_beside_the_majority(pretrained, table):
    output, _ = pretrained
    scores = finetune(
        TASK,
        FINETUNE,
        pretrained=output / "model",
        files={"train": str(table / "train.tsv"), "dev": str(table / "dev.tsv")},
        output=table / "run",
    )
    assert scores["accuracy"] > 0.9 > scores["majority_accuracy"]
    card = read_card(table / "run" / "model")
    assert card.labels == ("is cloth", "is stone", "is water")
    assert card.text_columns == ("text",)
    assert load_model(table / "run" / "model").num_labels == 3
    curves = read_curves(table / "run" / "logs")
    [(_, accuracy)] = curves["final"]["final/accuracy"]
    assert accuracy == pytest.approx(scores["accuracy"])
    assert len(curves["train"]["gradient_norm/heads"]) == FINETUNE.num_epochs


def test_random_weights_are_no_pretrained_ones(pretrained, table, capsys):
    output, _ = pretrained
    given = load_model(output / "model").encoder.get_weights()[0]
    for weights, same, said in (
        ("random", False, ""),
        ("pretrained", True, "encoder (37), pooler"),
    ):
        run = TaskRun(
            TASK,
            dataclasses.replace(FINETUNE, initial_weights=weights),
            pretrained=output / "model",
            files={"train": str(table / "train.tsv"), "dev": str(table / "dev.tsv")},
        )
        assert np.array_equal(run.model.encoder.get_weights()[0], given) == same
        told = capsys.readouterr().out
        assert said in told and bool(told) == same


def test_so_many_examples_are_spread_over_the_file(pretrained, table):
    places = {"train": str(table / "train.tsv"), "dev": str(table / "dev.tsv")}
    whole, some, more = (
        TaskRun(
            TASK,
            dataclasses.replace(FINETUNE, max_train_examples=count),
            pretrained=pretrained[0] / "model",
            files=places,
        )
        for count in (0, 5, 10_000)
    )
    step = len(whole.examples) / 5
    assert some.examples == [whole.examples[int(number * step)] for number in range(5)]
    assert (len(some.rows), some.task.labels) == (5, whole.task.labels)
    assert more.examples == whole.examples


def test_a_label_only_in_dev_is_refused_before_anything_is_written(pretrained, table):
    with (table / "dev.tsv").open("a") as file:
        file.write("red kind glass\tis glass\n")
    with pytest.raises(InputError, match=r"dev.tsv, line 50 has the label 'is glass'; known: is "):
        finetune(
            TASK,
            FINETUNE,
            pretrained=pretrained[0] / "model",
            files={"train": str(table / "train.tsv"), "dev": str(table / "dev.tsv")},
            output=table / "run",
        )
    assert not (table / "run").exists()
