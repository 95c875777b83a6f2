"""From an untrained relative of BERT in Hugging Face's format to predictions of a server."""

import dataclasses
import json

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder
from bert_keras.config import BertConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.families import FAMILIES
from bert_keras.models.loading import load_model
from bert_keras.runs.export import export
from bert_keras.runs.finetune import finetune
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.serving.client import Client
from bert_keras.serving.server import running_server
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.packing import encode
from tests.relatives import CHANGES, KINDS, KOREAN

SETTINGS = {"batch_size": 24, "num_epochs": 12, "logs_per_epoch": 1, "dropout_rate": 0.0}
RECIPE = FinetuneRecipe(**SETTINGS, learning_rate=5e-3, bias_correction=True)
# As bert and electra with a cased vocabulary, of which klue-roberta has one.
AS_OTHERS = ("klue-bert", "koelectra", "multilingual-bert")
TEXTS = {False: ("good film", "bad film", "film"), True: ("맛도 좋은데", "맛도 낮은지", "영화는")}


def untrained(name, vocabulary, folder):
    """Writes an untrained encoder in the format of Hugging Face."""
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 24}
    sizes |= {"initializer_stddev": 0.3, "hidden_dropout_rate": 0.0}
    sizes["has_pooler"] = FAMILIES[KINDS.get(name, name)].has_pooler
    config = BertConfig(vocab_size=len(vocabulary), **{**sizes, **CHANGES[name]})
    keras.utils.set_random_seed(1)
    tokenizer = tokenizer_of(vocabulary, lowercase=name not in KOREAN)
    return BertEncoder(config).save_pretrained(folder, format="huggingface", tokenizer=tokenizer)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHANGES if name not in AS_OTHERS])
def test_a_relative_learns_text_pairs_and_is_served(vocabulary_of, tmp_path, name):
    good, bad, second = TEXTS[name in KOREAN]
    rows = ["one\ttwo\tlabel", *[f"{good}\t{second}\t1", f"{bad}\t{second}\t0"] * 96]
    (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    settings = {"max_length": 24, "text_columns": ("one", "two")}
    task = dataclasses.replace(named_task("classification"), **settings)
    folder = untrained(name, vocabulary_of(name), tmp_path / "start")
    assert json.loads((folder / "config.json").read_text())["model_type"] == KINDS.get(name, name)
    data = dict.fromkeys(("train", "dev"), str(tmp_path / "rows.tsv"))
    finetune(task, RECIPE, pretrained=folder, data=data, output=tmp_path / "run")
    model = load_model(tmp_path / "run" / "model")
    inputs = encode(model.tokenizer, [good, bad], [second] * 2, max_length=24)
    assert model.tokenizer.vocabulary.unk_id not in inputs["input_ids"]
    logits = model.predict_on_batch(inputs)
    assert [model.metadata.labels[number] for number in logits.argmax(axis=1)] == ["1", "0"]
    assert dataclasses.replace(model.config, **CHANGES[name]) == model.config

    export(tmp_path / "run" / "model", tmp_path / "saved" / "film" / "1")
    with running_server(tmp_path / "saved" / "film") as url:
        texts = [{"text": text, "text_pair": second} for text in (good, bad)]
        with Client(f"{url}/v1/models/film") as client:
            predictions = client.predict(texts)
    assert [each["label"] for each in predictions] == ["1", "0"]
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    probabilities = [each["probabilities"] for each in predictions]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
