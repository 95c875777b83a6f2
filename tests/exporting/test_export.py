"""Exports of models in folders and in memory, what verifies them, and what is stored with them."""

import dataclasses
import json
import os
import shlex
import shutil

import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from bert_keras import BertClassifier, BertEncoder, BertFeatureTagger, BertMultipleChoice
from bert_keras.errors import InputError
from bert_keras.exporting import export as export_module
from bert_keras.exporting.servable import checked_tensors, tensor_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.verify import run_in_fresh_process, run_requests
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.task_models import BertQuestionAnswering, BertTokenClassifier
from bert_keras.runs.export import export
from bert_keras.serving import version_folder
from bert_keras.serving.container_files import instructions
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError
from bert_keras.serving.server import running_server
from bert_keras.serving.versions import load_version
from bert_keras.text.fast_tokenizer import tokenizer_of
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.factories import random_metadata, tiny_config, tiny_vocabulary, with_noise
from tests.relatives import CHANGES

TOKENIZER = WordPieceTokenizer(tiny_vocabulary())
CONFIG = tiny_config(num_layers=1)


@pytest.mark.slow
def test_an_export_stores_an_example_of_a_fresh_process(tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "run_in_fresh_process", run_in_fresh_process)
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    written = export(tmp_path / "model", tmp_path / "name" / "1")
    example = json.loads((written / version_folder.METADATA).read_text("utf-8"))["example"]
    assert example["instance"].keys() == {"text"}
    assert example["prediction"].keys() == {"tokens", "probabilities"}
    assert len(example["prediction"]["probabilities"]) == 1


HEADS = (BertMaskedLM, BertMultipleChoice, BertQuestionAnswering, BertTokenClassifier)
RELATIVES = [(name, BertClassifier) for name in CHANGES]
RELATIVES += [(name, kind) for name in ("modernbert", "xlm-roberta") for kind in HEADS]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), RELATIVES)
def test_relatives_have_the_outputs_of_keras(tmp_path, vocabulary_of, name, kind):
    vocabulary = vocabulary_of(name)
    config = {"vocab_size": len(vocabulary), "max_positions": 128, **CHANGES[name]}
    metadata = random_metadata(kind.__name__, config=config, max_length=96)
    model = with_noise(kind.from_metadata(metadata))
    model.metadata, model.tokenizer = metadata, tokenizer_of(vocabulary, lowercase=False)
    folder = model.export(tmp_path / "name" / "1")
    (asset,) = (folder / "assets").iterdir()
    assert asset.name == ("tokenizer.json" if vocabulary.rules else "vocab.txt")


@pytest.fixture(scope="module")
def model():
    labels = ("schlecht", "größer")
    metadata = random_metadata(
        "BertClassifier", config={"num_layers": 1}, labels=labels, text_columns=("text",)
    )
    model = with_noise(BertClassifier.from_metadata(metadata))
    model.metadata, model.tokenizer = metadata, TOKENIZER
    return model


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    return model.export(tmp_path_factory.mktemp("saved_models") / "name" / "1", max_length=8)


def test_a_model_in_memory_and_a_folder_of_another_format_are_exported(
    model, tmp_path, written, not_verified
):
    texts, labels = {"text": ["bad", "a good film " * 9]}, model.labels
    model.save_pretrained(tmp_path / "foreign", format="huggingface")
    requests = [{"signature": "serving_default", "inputs": texts}]
    expected = run_requests(written, requests)
    assert expected[0]["labels"] == [[*labels]] * 2
    folder = export(tmp_path / "foreign", tmp_path / "name" / "1", max_length=8)
    assert run_requests(folder, requests) == expected
    before = (written / "saved_model.pb").read_bytes()
    with pytest.raises(InputError):
        model.export(written)
    assert (written / "saved_model.pb").read_bytes() == before


def test_the_server_gives_the_answer_that_the_instructions_print(written):
    lines = instructions(written).splitlines()
    assert f"-v {written.parent}:/models/name:ro -e MODEL_NAME=name" in lines[1]
    (curl,) = (shlex.split(line) for line in lines if "curl" in line)
    with running_server(written.parent) as url:
        reply = httpx.post(curl[-1].replace("http://localhost:8501", url), content=curl[-2])
    (served,), (printed,) = (json.loads(each)["predictions"] for each in (reply.text, lines[-1]))
    assert served["probabilities"] == pytest.approx(printed["probabilities"], rel=1e-3)
    assert served["label"] == printed["label"]


def test_models_that_cannot_be_exported_are_refused(model, tmp_path):
    BertClassifier(CONFIG, num_labels=2).save_pretrained(tmp_path / "no-vocabulary")
    model.save_pretrained(tmp_path / "model")
    other = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmn")))
    for source, arguments in (
        (BertEncoder(CONFIG), {}),
        (tmp_path / "no-vocabulary", {}),
        (tmp_path / "model", {"tokenizer": TOKENIZER}),
        *((model, each) for each in ({"data": "dev.tsv"}, {"labels": ["no"]}, {"num_texts": 3})),
        *((model, each) for each in ({"max_length": 3, "num_texts": 2}, {"tokenizer": other})),
    ):
        with pytest.raises(InputError):
            export(source, tmp_path / "name" / "1", **arguments)
    diverged = BertClassifier(CONFIG, num_labels=2)
    diverged.weights[-1].assign([0.5, np.nan])
    mixed = BertClassifier(CONFIG, num_labels=2, dtype="mixed_bfloat16")
    tagger = BertFeatureTagger(CONFIG, num_labels=2, layers="last", lstm_units=2)
    for source, error in ((mixed, InputError), (tagger, InputError), (diverged, RuntimeError)):
        with pytest.raises(error):
            export(source, tmp_path / "name" / "1", tokenizer=TOKENIZER)
    with pytest.raises(TypeError):
        export(BertEncoder(CONFIG), tmp_path / "name" / "1", tokenizer=TOKENIZER, num_texts=1)
    with pytest.raises(InputError):
        model.export(tmp_path / "name")
    assert not [*tmp_path.glob("name/*")]


def test_a_saved_model_with_other_outputs_or_tokens_is_refused(model, tmp_path, monkeypatch):
    def other_outputs(folder, requests, *, format):
        first, *others = run_requests(folder, requests)
        return [{**first, "label": [*first["label"][1:], "?"]}, *others]

    with monkeypatch.context() as patch:
        patch.setattr(export_module, "run_in_fresh_process", other_outputs)
        with pytest.raises(RuntimeError):
            model.export(tmp_path / "name" / "1")
    tokens = TextToInputs.tokens
    monkeypatch.setattr(TextToInputs, "tokens", lambda self, text: tokens(self, "x" + text))
    with pytest.raises(RuntimeError):
        model.export(tmp_path / "name" / "1")
    assert not [*tmp_path.glob("name/*")]


def test_a_version_stores_metadata_and_each_weight_once(model, written, tmp_path):
    assert [path.name for path in written.parent.iterdir()] == ["1"]
    folder = shutil.copytree(written, tmp_path / "name" / "1")
    assert (folder / "assets/vocab.txt").read_text("utf-8") == TOKENIZER.vocabulary.lines
    stored = json.loads((folder / version_folder.METADATA).read_text("utf-8"))
    card = dataclasses.replace(model.metadata, max_length=8).to_dict()
    assert stored["card"] == json.loads(json.dumps(card))
    assert stored["versions"]["tensorflow"] == tf.__version__
    (variables,) = (folder / "variables").glob("*.data-*")
    weights = sum(weight.value.numpy().nbytes for weight in model.weights)
    assert weights <= variables.stat().st_size < 2 * weights
    load_version(folder, limits=Limits(), on_run=print).close()
    os.truncate(folder / "assets/vocab.txt", 20)
    with pytest.raises(LoadError):
        load_version(folder, limits=Limits(), on_run=print)


def test_each_signature_has_a_warm_up_request(tmp_path, not_verified):
    model = BertMultipleChoice(CONFIG)
    folder = model.export(tmp_path / "choices" / "1", tokenizer=TOKENIZER, max_length=48)
    records = tf.data.TFRecordDataset(str(folder / version_folder.WARMUP)).as_numpy_iterator()
    requests = [PredictionLog.FromString(each).predict_log.request for each in records]
    assert [each.model_spec.signature_name for each in requests] == ["serving_default", "tensors"]
    texts, tensors = (
        {name: tf.make_ndarray(values) for name, values in each.inputs.items()} for each in requests
    )
    assert texts["context"].shape == (1,) and texts["choices"].shape == (1, 2)
    assert tensors["input_ids"].shape[:-1] == (1, 2)


CLS, SEP = TOKENIZER.vocabulary.cls_id, TOKENIZER.vocabulary.sep_id


@pytest.fixture(scope="module")
def tensors(model):
    """Returns the signature with the checks and without them."""
    plain = traced(
        lambda **inputs: {"logits": model(inputs, training=False)}, **tensor_specs(rank=2)
    )
    config = dataclasses.replace(CONFIG, max_positions=16)
    return checked_tensors(plain, config=config, cls_id=CLS), plain


def logits(signature, inputs):
    return signature(**{name: tf.constant(values) for name, values in inputs.items()})["logits"]


def inputs_of(ids):
    ids = np.int32(ids)
    return {"input_ids": ids, "input_mask": np.int32(ids > 0), "segment_ids": np.int32(ids > 12)}


def test_the_padding_of_tf_serving_is_masked(tensors):
    """TF Serving pads each tensor of a row with its first value: batching_util.cc."""
    checked, plain = tensors
    inputs = inputs_of([[CLS, 7, 8, SEP, 9, 15, SEP], [CLS, 9, CLS, SEP, 0, 0, 0]])
    np.testing.assert_array_equal(logits(checked, inputs), logits(plain, inputs))
    row = inputs_of([[CLS, 7, 8, SEP]])
    padded = {n: np.pad(v, [(0, 0), (0, 8)], constant_values=v[0, 0]) for n, v in row.items()}
    assert padded["input_mask"].all()
    np.testing.assert_allclose(logits(checked, padded), logits(plain, row), atol=1e-5)
    assert np.abs(logits(plain, padded) - logits(plain, row)).max() > 0.01


def test_rows_and_ids_that_the_model_cannot_read_are_refused(tensors):
    for name in ("input_ids", "input_mask", "segment_ids"):
        inputs = inputs_of([[CLS, 7, SEP]])
        inputs[name] = np.ones([1, 20_000_000], np.int32)  # whose embeddings would take 2.5 GB
        with pytest.raises(tf.errors.InvalidArgumentError, match="16 "):
            logits(tensors[0], inputs)
    wrong = [("input_ids", value) for value in (-1, -100, CONFIG.vocab_size)]
    for name, value in (*wrong, ("segment_ids", 2), ("input_mask", -1)):
        inputs = inputs_of([[CLS, 7, SEP]])
        inputs[name][0, 1] = value
        with pytest.raises(tf.errors.InvalidArgumentError, match=name):
            logits(tensors[0], inputs)


def test_names_of_models_and_versions(tmp_path):
    for name in ("", ".", "..", "a/b", "a:b", "a\n", "\udcff"):
        with pytest.raises(InputError):
            version_folder.check_model_name(name)
    for name in ("sst2", "größe", "a b", "-x", "..."):
        version_folder.check_model_name(name)
    assert version_folder.is_version(str(2**63 - 1)) and not version_folder.is_version(str(2**63))
    assert version_folder.next_version(tmp_path / "none") == 1
    for name in ("2", "0010", "x", "²", "-50", str(2**63)):
        (tmp_path / name).mkdir()
    assert version_folder.next_version(tmp_path) == 11
