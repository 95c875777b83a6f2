"""Runs the Python blocks of the quickstart and of the how-to guides on small models and data."""

import re
from pathlib import Path

import keras
import pytest

from bert_keras import BertConfig, Vocabulary, WordPieceTokenizer, load_model
from bert_keras.checkpoints.conversion import convert
from bert_keras.models import BertClassifier, BertPretrainer
from bert_keras.serving.server import running_server
from bert_keras.text.vocab import SPECIAL_PIECES
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings

DOCS = Path(__file__).parents[2] / "docs"
WORDS = ["a", "good", "bad", "film", "fine", "two", "hours", "of", "nothing", "."]
# Text of a page -> a smaller value, or one of this test.
SMALLER = {
    "steps_per_epoch=1_000": "steps_per_epoch=2",
    'preset("tiny", vocab_size=4_000)': 'preset("tiny", vocab_size=15, num_layers=1)',
    'preset("base")': 'preset("tiny", vocab_size=15, num_layers=1)',
    "batch_size=256": "batch_size=32",
}

pytestmark = pytest.mark.slow


def run(page: str, *, names: dict | None = None, first: int = 0, changes: dict = SMALLER) -> dict:
    """Runs the Python blocks of a page from number `first` on and returns their names."""
    names = {} if names is None else names
    text = (DOCS / page).read_text("utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[first:]:
        for written, smaller in changes.items():
            code = code.replace(written, smaller)
        exec(compile(code, page, "exec"), names)
    return names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models, records and a task with the names of the pages."""
    folder = tmp_path_factory.mktemp("examples")
    vocabulary = Vocabulary((*SPECIAL_PIECES, *WORDS))
    assert len(vocabulary) == 15
    config = BertConfig(vocab_size=15, hidden_size=16, num_layers=2, num_heads=2, max_positions=128)
    keras.utils.set_random_seed(1)
    tokenizer = WordPieceTokenizer(vocabulary)
    for name in ("bert-base", "bert-base-uncased", "bert-base-finetuned", "minilm"):
        BertPretrainer(config).save_pretrained(folder / name, tokenizer=tokenizer)
    convert(folder / "bert-base", folder / "student", format="bert-keras", num_layers=1)
    for name in ("runs/sst2/model", "demo/1/finetune/model"):
        model, labels = BertClassifier(config, num_labels=2), ("0", "1")
        model.save_pretrained(folder / name, tokenizer=tokenizer, labels=labels)
    (folder / "corpus.txt").write_text("\n\n".join(["a good film .\ntwo hours of nothing ."] * 80))
    for name, num_predictions in (("records", 2), ("plain", 0)):
        settings = BuildSettings(max_length=16, max_predictions=num_predictions, shards=1)
        build(
            [folder / "corpus.txt"],
            vocabulary=vocabulary,
            output=folder / name,
            settings=settings,
        )
    mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + 20 * (
        "1\t1\t2\ta good film\ta fine film\n0\t3\t4\ta good film\ttwo hours of nothing\n"
    )
    (folder / "glue" / "MRPC").mkdir(parents=True)
    for split in ("train", "dev"):
        (folder / "glue" / "MRPC" / f"{split}.tsv").write_text(mrpc)
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_quickstart():
    assert run("quickstart.md")["model"].card.labels == ("0", "1")


def test_write_records():
    names = run("how-to/write-records.md")
    inputs, targets, _ = next(iter(names["dataset"]))
    assert inputs["input_ids"].shape == (32, 16)
    assert targets["masked_lm"].shape[0] == 32


def test_pretrain():
    run("how-to/pretrain.md")
    assert Path("pretrainer.keras").stat().st_size > 10_000


def test_distil():
    run("how-to/distil.md")
    assert load_model("distilled").config.num_layers == 1


def test_scale_out():
    assert run("how-to/scale-out.md")["model"].optimizer.iterations > 0


def test_import_weights():
    run("how-to/import-weights.md")
    assert type(load_model("mine")).__name__ == "BertPretrainer"


def test_fine_tune():
    assert len(run("how-to/fine-tune.md")["labels"]) == 2
    assert load_model("mrpc").card.labels


def test_export_and_serve(capsys):
    run("how-to/export.md")
    with running_server("saved_models/sst2") as url:
        run("how-to/serve.md", changes={"http://localhost:8501": url})
    assert "'label': " in capsys.readouterr().out


def test_reproduce_tables(monkeypatch):
    from bert_keras.experiments import run as module

    calls = []
    monkeypatch.setattr(module, "reproduce", lambda *args, **paths: calls.append((args, paths)))
    run("how-to/reproduce-tables.md")
    (((experiment, scale), _),) = calls
    assert scale.phases[0].recipe.num_steps == 600 and experiment.columns
