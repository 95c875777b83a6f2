"""From an untrained relative of BERT in Hugging Face's format to predictions of a server.

Each test is a row of the table in docs/reference/variants.md.
"""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, load_exported
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.config import BertConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.families import FAMILIES
from bert_keras.models.loading import load_model
from bert_keras.runs.conversion import convert
from bert_keras.runs.export import export
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.recipes import PRETRAIN, FinetuneRecipe
from bert_keras.runs.settings import named_recipe
from bert_keras.serving.client import Client
from bert_keras.serving.server import running_server
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.packing import encode
from tests.factories import assert_same_tensors
from tests.relatives import CHANGES, KINDS, KOREAN
from tests.under_jax import without_tensorflow
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "variants.md"
SETTINGS = {"batch_size": 24, "num_epochs": 12, "logs_per_epoch": 1, "dropout_rate": 0.0}
SETTINGS |= {"learning_rate": 5e-3, "bias_correction": True}
STEPS = ["batch_size=4", "num_steps=4", "steps_per_log=2", "num_warmup_steps=1"]
# As bert and electra with a cased vocabulary, of which klue-roberta has one.
AS_OTHERS = ("klue-bert", "koelectra", "multilingual-bert")
TEXTS = {False: ("good film", "bad film", "film"), True: ("맛도 좋은데", "맛도 낮은지", "영화는")}


def untrained(name, vocabulary, folder):
    """Writes an untrained encoder in the format of Hugging Face."""
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 24}
    sizes |= {"initializer_stddev": 0.3, "hidden_dropout_rate": 0.0}
    sizes["has_pooler"] = FAMILIES[KINDS.get(name, name)].has_pooler
    config = BertConfig(vocab_size=len(vocabulary), **{**sizes, **CHANGES.get(name, {})})
    keras.utils.set_random_seed(1)
    tokenizer = tokenizer_of(vocabulary, lowercase=name not in KOREAN)
    return BertEncoder(config).save_pretrained(folder, format="huggingface", tokenizer=tokenizer)


@pytest.fixture
def relative(vocabulary_of, tmp_path):
    """Returns a function that makes the folder of an untrained relative, with data to learn."""

    def make(name):
        good, bad, second = TEXTS[name in KOREAN]
        rows = ["one\ttwo\tlabel", *[f"{good}\t{second}\t1", f"{bad}\t{second}\t0"] * 96]
        (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n", "utf-8")
        folder = untrained(name, vocabulary_of(name), tmp_path / "start")
        kind = json.loads((folder / "config.json").read_text())["model_type"]
        assert kind == KINDS.get(name, name)
        return folder, ([good, bad], [second] * 2), str(tmp_path / "rows.tsv")

    return make


def saves(folder: Path) -> None:
    """The folder comes back from our own format bit for bit."""
    convert(folder, folder.parent / "ours")
    convert(folder.parent / "ours", folder.parent / "back", format="huggingface")
    first, last = (open_checkpoint(folder.parent / each) for each in (folder.name, "back"))
    assert_same_tensors(last.tensors, first.tensors)
    assert last.metadata == first.metadata and last.vocabulary == first.vocabulary


def pretrains(folder: Path) -> None:
    tokenizer = load_model(folder).tokenizer
    settings = {"max_length": 24, "max_predictions": 0, "lowercase": tokenizer.lowercase}
    settings = BuildSettings(objective="full-sentences", **settings)
    records, run = folder.parent / "records", folder.parent / "pretrained"
    build([ROOT / "LICENSE"], vocabulary=tokenizer.vocabulary, output=records, settings=settings)
    recipe = named_recipe(PRETRAIN, "demo", changes=STEPS)
    pretrain(recipe, records=records, output=run, pretrained=folder)
    before, after = (
        load_model(folder).get_weights(),
        load_model(run / "model").encoder.get_weights(),
    )
    assert all(np.isfinite(each).all() for each in after)
    assert sum((one != other).any() for one, other in zip(before, after, strict=True)) >= 10


def served(folder: Path, texts) -> list[dict]:
    with (
        running_server(folder.parent) as url,
        Client(f"{url}/v1/models/{folder.parent.name}") as client,
    ):
        rows = zip(*texts, strict=True)
        return client.predict([{"text": first, "text_pair": second} for first, second in rows])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", *(n for n in CHANGES if n not in AS_OTHERS)])
def test_every_column_of_the_table(relative, tmp_path, name):
    folder, texts, rows = relative(name)
    saves(folder)
    pretrains(folder)
    settings = {"max_length": 24, "text_columns": ("one", "two")}
    task = dataclasses.replace(named_task("classification"), **settings)
    data = {"train": rows, "dev": rows}
    run = tmp_path / "run"
    finetune(task, FinetuneRecipe(**SETTINGS), pretrained=folder, data=data, output=run)
    model = load_model(run / "model")
    inputs = encode(model.tokenizer, *texts, max_length=24)
    assert model.tokenizer.vocabulary.unk_id not in inputs["input_ids"]
    logits = model.predict_on_batch(inputs)
    assert [model.metadata.labels[number] for number in logits.argmax(axis=1)] == ["1", "0"]
    assert dataclasses.replace(model.config, **CHANGES.get(name, {})) == model.config
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))

    for number, format in enumerate(("tf_saved_model", "litert"), start=1):
        saved = export(run / "model", tmp_path / format / "1", format=format)
        predictions = served(saved, texts)
        assert [each["label"] for each in predictions] == ["1", "0"], number
        probabilities = [each["probabilities"] for each in predictions]
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    options = {"data": rows, "max_score_drop": 0}
    small = export(
        run / "model", tmp_path / "small" / "1", variant="int8", format="litert", **options
    )
    assert [each["label"] for each in load_exported(small).predict(texts)] == ["1", "0"]

    command = ["finetune", "classification", "--from", str(folder), "--output", f"{tmp_path}/jax"]
    command += ["--train", rows, "--dev", rows, "--set", "max_length=24", "text_columns=one,two"]
    without_tensorflow([[*command, *(f"{n}={v}".lower() for n, v in SETTINGS.items())]])
    logits = load_model(tmp_path / "jax" / "model").predict_on_batch(inputs)
    assert [model.metadata.labels[number] for number in logits.argmax(axis=1)] == ["1", "0"]
    (row,) = (line for line in PAGE.read_text("utf-8").split("\n") if f"| `{name}` |" in line)
    assert row.count("✓") == 8
