"""Fine-tuning of a classifier: loaded heads, continued runs and unsuitable checkpoints."""

import dataclasses
import io
import shutil

import numpy as np
import pytest
from tqdm import tqdm

from bert_keras import BertClassifier, BertEncoder
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, EmbeddingConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.finetune import finetune
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.task_run import TaskRun
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film"))
RECIPE = FinetuneRecipe(batch_size=4, num_epochs=1, learning_rate=1e-3, logs_per_epoch=1)
TASK = dataclasses.replace(named_task("classification"), max_length=8)
TASK_OF_PAIRS = dataclasses.replace(TASK, text_columns=("one", "two"))

HEAD = "classification (2)"
SIZES = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_positions": 8}
CONFIG = BertConfig(vocab_size=len(VOCABULARY), **SIZES)


def encoder(folder, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    model, tokenizer = BertEncoder(config), WordPieceTokenizer(VOCABULARY.padded(config.vocab_size))
    return model.save_pretrained(folder, tokenizer=tokenizer)


def interrupt(*arguments, **named):
    raise KeyboardInterrupt


@pytest.fixture
def files(tmp_path):
    lines = ["one\ttwo\tlabel", *["good film\tfilm\t1", "bad film\tfilm\t0"] * 4]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    return dict.fromkeys(("train", "dev"), str(tmp_path / "rows.tsv"))


@pytest.fixture
def run(files, tmp_path):
    def run(start, *text_columns, output, **changes):
        task = dataclasses.replace(TASK, text_columns=text_columns)
        recipe = dataclasses.replace(RECIPE, **changes)
        return finetune(task, recipe, pretrained=start, data=files, output=tmp_path / output)

    return run


@pytest.mark.parametrize(
    ("labels", "task", "new", "unused"),
    [
        (("0", "1"), {"name": "classification", "text_columns": ["one"]}, "none", "none"),
        (("0", "1"), {"name": "classification", "text_columns": ["two"]}, HEAD, HEAD),
        (("0", "1"), {"name": "sst2"}, HEAD, HEAD),
        (("0", "1"), {}, HEAD, HEAD),
        (("no", "yes"), {"name": "classification", "text_columns": ["one"]}, HEAD, HEAD),
    ],
)
def test_a_head_is_loaded_for_the_same_task_and_labels(
    run, tmp_path, monkeypatch, capsys, labels, task, new, unused
):
    model = BertClassifier(CONFIG, num_labels=2)
    fields = {"text_columns": ("one",), "labels": labels, "task": task}
    metadata = dataclasses.replace(model.new_metadata(), **fields)
    save_model(model, tmp_path / "start", metadata=metadata, vocabulary=VOCABULARY)
    monkeypatch.setattr("bert_keras.runs.finetune.fit_resumable", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "start", "one", output="run")
    printed = capsys.readouterr().out.splitlines()
    assert printed[2:] == [f"new         {new}", f"unused      {unused}"]


@pytest.mark.slow
def test_a_run_continues_after_an_interruption_at_any_stage(run, tmp_path, monkeypatch, capsys):
    """Before the first step, before the model or the scores are written, and after the end."""
    start, folder, bars = encoder(tmp_path / "encoder"), tmp_path / "run", []

    def continue_run(*text_columns, **changes):
        return run(start, *text_columns, output="run", batch_size=3, num_epochs=2, **changes)

    def interrupt_at(function, **changes):
        with monkeypatch.context() as patch:
            patch.setattr(f"bert_keras.runs.finetune.{function}", interrupt)
            with pytest.raises(KeyboardInterrupt):
                continue_run("one", **changes)
        return capsys.readouterr().out

    def progress_bar(**options):
        bars.append(tqdm(total=options["total"], disable=False, file=io.StringIO()))
        return bars[-1]

    assert interrupt_at("fit_resumable", seed=5)  # another run may use the folder
    monkeypatch.setattr("bert_keras.training.callbacks.tqdm", progress_bar)
    assert "loaded      encoder (21 weights), pooler (2)" in interrupt_at("save_model")
    assert (bars[0].n, bars[0].total) == (16, 16)  # rows
    with pytest.raises(InputError):
        continue_run("two")
    interrupt_at("outcome.write_scores")
    assert (folder / "model").is_dir()
    result = continue_run("one")
    assert result.scores["steps"] == 6 and len(bars) == 1  # nothing was trained again
    assert continue_run("one") == result
    assert capsys.readouterr().out.splitlines()[-1].startswith("complete")
    shutil.rmtree(folder / "model")
    assert continue_run("one") == result
    assert (folder / "model").is_dir()
    shutil.rmtree(folder / "model")
    (folder / "best.npz").unlink()
    with pytest.raises(InputError):
        continue_run("one")


def test_sentence_embeddings_have_no_teacher(files, tmp_path, capsys):
    start = encoder(tmp_path / "encoder")
    columns = {"text_columns": ("one", "two"), "score_column": "label", "max_length": 8}
    with pytest.raises(InputError):
        TaskRun("sentence-pairs", pretrained=start, data=files, teacher=start, **columns)
    run = TaskRun("sentence-pairs", pretrained=start, data=files, **columns)
    assert run.metadata.embedding == EmbeddingConfig() and run.recipe.learning_rate == 2e-5
    out, err = capsys.readouterr()
    assert "small-models, because the hidden size is" in out and "is the training file" in err


def test_an_epoch_has_as_many_steps_as_batches_without_a_common_text(tmp_path):
    rows = "good\tfilm\nbad\tfilm\ngood bad\tfilm\nfilm\tgood film\n"  # film is in each row
    (tmp_path / "rows.tsv").write_text(f"query\tpositive\n{rows}")
    files = dict.fromkeys(("train", "dev"), str(tmp_path / "rows.tsv"))
    start = encoder(tmp_path / "start")
    run = TaskRun("retrieval", RECIPE, pretrained=start, data=files, max_length=8)
    epoch = [x["input_ids"] for x, _ in run.train.take(run.steps_per_epoch)]
    assert sum(map(len, epoch)) == 4 and run.num_steps == len(epoch) == 4


def test_a_bilstm_with_random_weights_is_inserted_before_the_head(files, tmp_path, capsys):
    start = encoder(tmp_path / "start", is_causal=True)
    changes = {"num_lstm_layers": 1, "classifier_pooling": "mean", "gradient_checkpointing": True}
    run = TaskRun(TASK_OF_PAIRS, RECIPE, pretrained=start, data=files, **changes)
    config = run.model.config
    assert "new         bilstm (6), classification (2)" in capsys.readouterr().out
    assert (config.num_lstm_layers, config.is_causal, config.pooling) == (1, True, "mean")
    assert run.model.encoder.gradient_checkpointing
    save_model(run.model, tmp_path / "model", metadata=run.metadata, vocabulary=VOCABULARY)
    again = TaskRun(TASK_OF_PAIRS, RECIPE, pretrained=tmp_path / "model", data=files).model
    assert "new         none" in capsys.readouterr().out
    assert (again.config.num_lstm_layers, again.config.pooling) == (1, "mean")


def test_settings_without_effect_are_refused_for_a_frozen_encoder(tmp_path):
    start, rows = encoder(tmp_path / "start"), tmp_path / "rows.conll"
    rows.write_text("good O\nfilm B-X\n\n")
    arguments = {"pretrained": start, "data": {"train": rows, "dev": rows}, "max_length": 8}
    for name, value in {"num_lstm_layers": 1, "classifier_pooling": "mean"}.items():
        with pytest.raises(InputError):
            TaskRun("ner-features", RECIPE, **arguments, layers="last", **{name: value})


@pytest.mark.slow
def test_a_continued_run_with_a_frozen_encoder_has_the_same_weights(tmp_path):
    start, rows = encoder(tmp_path / "start"), tmp_path / "rows.conll"
    rows.write_text("Film B-LOC\nis O\ngood O\n\nbad O\nfilm B-LOC\n\n" * 2)
    sizes = {"max_length": 8, "lstm_units": 4}
    task = dataclasses.replace(named_task("ner-features"), layers="last", **sizes)
    recipe = dataclasses.replace(RECIPE, batch_size=2, num_epochs=2)
    arguments = {"pretrained": start, "data": {"train": str(rows), "dev": str(rows)}}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    expected = finetune(task, recipe, output=whole, **arguments).scores
    shutil.copytree(whole, stopped)  # as before the model is saved
    shutil.rmtree(stopped / "model")
    (stopped / "scores.json").unlink()
    assert finetune(task, recipe, output=stopped, **arguments).scores == expected
    assert len([*(stopped / "features" / "train").iterdir()]) == 1
    models = [load_model(folder / "model").get_weights() for folder in (whole, stopped)]
    for weight, other_weight in zip(*models, strict=True):
        np.testing.assert_array_equal(weight, other_weight)
    with pytest.raises(InputError):
        other = dataclasses.replace(task, layers="concat-last-four")
        finetune(other, recipe, output=tmp_path / "refused", **arguments)
    assert not (tmp_path / "refused").exists()


def test_a_tenth_of_the_training_file_is_held_out_with_each_label(files, tmp_path, capsys):
    rows = [f"good film\tfilm\t{number % 4 == 0:d}" for number in range(40)] + ["bad\tfilm\t2"]
    (tmp_path / "rows.tsv").write_text("\n".join(["one\ttwo\tlabel", *rows]) + "\n")
    task = dataclasses.replace(TASK, text_columns=("one",))
    arguments = {"pretrained": encoder(tmp_path / "start"), "data": {"train": files["train"]}}
    first, again = (TaskRun(task, RECIPE, **arguments, seed=seed) for seed in (1, 2))
    assert first.dev_examples == again.dev_examples
    assert sorted(each.label for each in first.dev_examples) == ["0", "0", "0", "1"]
    assert not {*first.examples} & {*first.dev_examples} and len(first.examples) == 37
    printed = capsys.readouterr().err
    assert "labels      '2': a single row" in printed and "4 of the 41 examples" in printed
