"""A classifier's run: what it takes from its checkpoint, and what it refuses."""

import dataclasses
import io
import shutil

import pytest
from tqdm import tqdm

from bert_keras.config import BertConfig
from bert_keras.convert.card import ModelCard
from bert_keras.encoder.pretrained import save_model
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertEncoder
from bert_keras.runs.finetune import finetune
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.tasks.catalog import named_task
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "good", "bad", "film"))
RECIPE = FinetuneRecipe(batch_size=4, num_epochs=1, learning_rate=1e-3, logs_per_epoch=1)
TASK = dataclasses.replace(named_task("classification"), max_length=8)


HEAD = "classification (2)"
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=8
)


def encoder(folder, **changes):
    config = dataclasses.replace(CONFIG, **changes)
    model, tokenizer = BertEncoder(config), WordPieceTokenizer(VOCABULARY.padded(config.vocab_size))
    return model.save_pretrained(folder, tokenizer=tokenizer)


def interrupt(*arguments, **named):
    raise KeyboardInterrupt


@pytest.fixture
def run(tmp_path):
    lines = ["one\ttwo\tlabel", *["good film\tfilm\t1", "bad film\tfilm\t0"] * 4]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")

    def run(start, *text_columns, output, **changes):
        return finetune(
            dataclasses.replace(TASK, text_columns=text_columns),
            dataclasses.replace(RECIPE, **changes),
            pretrained=start,
            train=str(tmp_path / "rows.tsv"),
            dev=str(tmp_path / "rows.tsv"),
            output=tmp_path / output,
        )

    return run


@pytest.mark.parametrize(
    ("labels", "task", "new", "left_over"),
    [
        (("0", "1"), {"name": "classification", "text_columns": ["one"]}, "none", "none"),
        (("0", "1"), {"name": "classification", "text_columns": ["two"]}, HEAD, HEAD),
        (("0", "1"), {"name": "sst2"}, HEAD, HEAD),
        (("0", "1"), {}, HEAD, HEAD),
        (("no", "yes"), {"name": "classification", "text_columns": ["one"]}, HEAD, HEAD),
    ],
)
def test_a_head_is_kept_for_the_same_labels_of_the_same_task(
    run, tmp_path, monkeypatch, capsys, labels, task, new, left_over
):
    model = BertClassifier(CONFIG, num_labels=2)
    card = ModelCard(
        model="BertClassifier",
        config=CONFIG,
        lowercase=True,
        max_length=8,
        text_columns=("one",),
        labels=labels,
        task=task,
    )
    save_model(model, tmp_path / "start", card=card, vocabulary=VOCABULARY)
    monkeypatch.setattr("bert_keras.runs.finetune.fit_resumable", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "start", "one", output="run")
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"new         {new}",
        f"left over   {left_over}",
    ]


def test_a_run_that_goes_on_loads_nothing_of_its_start(run, tmp_path, monkeypatch, capsys):
    start = encoder(tmp_path / "encoder")
    with monkeypatch.context() as patch:
        patch.setattr("bert_keras.runs.finetune.save_model", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(start, "one", output="run")
    assert "loaded      encoder (21), pooler (2)" in capsys.readouterr().out
    assert run(start, "one", output="run")["steps"] == 2
    assert capsys.readouterr().out == ""


def test_checkpoints_that_do_not_fit_are_refused_before_anything_is_written(run, tmp_path):
    one = encoder(tmp_path / "one", num_segments=1)
    with pytest.raises(InputError, match=r"a pair needs 2 segments and the encoder of .*one has 1"):
        run(one, "one", "two", output="run")
    padded = encoder(tmp_path / "padded", vocab_size=10)
    VOCABULARY.save(padded / "vocab.txt")
    with pytest.raises(
        InputError, match=r"--pad-vocabulary; first run bert-keras convert .*padded"
    ):
        run(padded, "one", output="run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_killed_before_its_scores_replaces_its_model(run, tmp_path, monkeypatch):
    start = encoder(tmp_path / "encoder")
    with monkeypatch.context() as patch:
        patch.setattr("bert_keras.runs.finetune.write_scores", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(start, "one", output="run")
    assert (tmp_path / "run" / "model").is_dir()
    assert run(start, "one", output="run")["steps"] == 2


def test_a_model_that_was_removed_is_made_again(run, tmp_path, capsys):
    start = encoder(tmp_path / "encoder")
    scores = run(start, "one", output="run")
    shutil.rmtree(tmp_path / "run" / "model")
    assert run(start, "one", output="run") == scores
    assert "run has ended but its model/ is gone: it is made again" in capsys.readouterr().err
    assert (tmp_path / "run" / "model").is_dir()
    shutil.rmtree(tmp_path / "run" / "model")
    (tmp_path / "run" / "best.safetensors").unlink()
    with pytest.raises(InputError, match=r"run has lost its evaluations.json or best.safetensors;"):
        run(start, "one", output="run")


def test_the_folder_of_a_run_that_never_began_may_be_taken(run, tmp_path, monkeypatch):
    start = encoder(tmp_path / "encoder")
    with monkeypatch.context() as patch:
        patch.setattr("bert_keras.runs.finetune.fit_resumable", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(start, "one", output="run", seed=5)
    assert run(start, "one", output="run")["steps"] == 2
    with pytest.raises(InputError, match=r"holds a run with task.text_columns \['one'\], now \['t"):
        run(start, "two", output="run")


def test_a_training_that_diverges_ends_with_a_sentence(run, tmp_path):
    with pytest.raises(InputError, match="loss is nan at step 2: the training has diverged; begin"):
        run(encoder(tmp_path / "encoder"), "one", output="run", learning_rate=1e38)


def test_the_bar_counts_rows(run, tmp_path, monkeypatch):
    bars = []

    def bar(**told):
        bars.append(tqdm(total=told["total"], disable=False, file=io.StringIO()))
        return bars[-1]

    monkeypatch.setattr("bert_keras.training.callbacks.progress", bar)
    run(encoder(tmp_path / "encoder"), "one", output="run", batch_size=3, num_epochs=2)
    assert (bars[0].n, bars[0].total) == (16, 16)
