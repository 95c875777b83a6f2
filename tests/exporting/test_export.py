"""Exports of models in folders and in memory, what verifies them, and what is stored with them."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting import saved_model
from bert_keras.exporting.export import export
from bert_keras.exporting.saved_model import check_ops, check_outputs
from bert_keras.exporting.servable import checked_tensors, tensor_specs, traced
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.verify import run_in_fresh_process, run_requests, to_arrays
from bert_keras.exporting.version_folder import (
    METADATA,
    check_files,
    check_model_name,
    is_version,
    next_version,
)
from bert_keras.models import (
    BertClassifier,
    BertEncoder,
    BertFeatureTagger,
    BertMultipleChoice,
    BertPretrainer,
    BertQuestionAnswering,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.factories import tiny_config, tiny_vocabulary, with_noise

TOKENIZER = WordPieceTokenizer(tiny_vocabulary())
CONFIG = tiny_config(num_layers=1)


@pytest.mark.slow  # the other tests of a head run its export in their own process
@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        (BertClassifier, {"label", "labels", "probabilities"}),
        (BertEncoder, {"embedding", "pooled"}),
        (BertSentenceEncoder, {"embedding"}),
        (BertMultipleChoice, {"choice", "probabilities"}),
        (BertPretrainer, {"pieces", "probabilities"}),
        (BertQuestionAnswering, {"answer", "start", "end", "score", "no_answer_score"}),
        (BertTokenClassifier, {"entities", "starts", "ends", "labels", "scores"}),
    ],
)
def test_every_head_is_verified_in_a_fresh_process(
    tmp_path, verified_in_fresh_process, kind, outputs
):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(CONFIG, max_positions=128)  # space for a question and a passage
    labelled = {"num_labels": 3} if kind in (BertClassifier, BertTokenClassifier) else {}
    kind(config, **labelled).save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    written = export(tmp_path / "model", tmp_path / "name" / "1")
    signatures = tf.saved_model.load(str(written)).signatures
    assert set(signatures["serving_default"].structured_outputs) == outputs
    assert {"tensors", "examples"} <= set(signatures)


@pytest.fixture(scope="module")
def model():
    model = with_noise(BertClassifier(CONFIG, num_labels=2))
    model.tokenizer = TOKENIZER
    return model


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    return model.export(tmp_path_factory.mktemp("saved_models") / "name" / "1", max_length=8)


def test_a_model_in_memory_and_folders_of_any_format_are_exported(
    model, tmp_path, written, not_verified
):
    texts, labels = {"text": ["bad", "a good film " * 9]}, ("LABEL_0", "LABEL_1")
    model.save_pretrained(tmp_path / "model", labels=labels)
    model.save_pretrained(tmp_path / "foreign", format="huggingface")
    requests = [{"signature": "serving_default", "inputs": texts}]
    expected = run_requests(written, requests)
    assert expected[0]["labels"] == [[*labels]] * 2
    for name in ("model", "foreign"):
        folder = export(tmp_path / name, tmp_path / name / "1", max_length=8)
        assert run_requests(folder, requests) == expected
    pairs = export(tmp_path / "foreign", tmp_path / "pairs" / "1", num_texts=2)
    signature = tf.saved_model.load(str(pairs)).signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == {"text", "text_pair"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "name"}, "version number"),
        ({"path": "a[0]/1"}, r"contains '\['"),
        ({"labels": ["no"]}, "labels has 1 name; expected 2"),
        ({"data": "dev.tsv"}, "no effect without a variant"),
        ({"variant": "int8"}, "needs data"),
        ({"variant": "int4", "data": "dev.tsv"}, "int4"),
        ({"dimensions": 2}, "takes no dimensions"),
        ({"num_texts": 3}, "num_texts is 3"),
        ({"max_length": 65}, "max_length is 65"),
        ({"tokenizer": WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmn")))}, "19"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(model, tmp_path, arguments, message):
    path = tmp_path / arguments.pop("path", "name/1")
    with pytest.raises(InputError, match=message):
        model.export(path, **arguments)
    assert not path.exists()


def test_models_that_cannot_be_exported_are_refused(model, tmp_path):
    def refused(source, message, **arguments):
        with pytest.raises(InputError, match=message):
            export(source, tmp_path / "name" / "1", **arguments)

    refused(BertEncoder(CONFIG), "tokenizer=")
    refused(BertClassifier(CONFIG, num_labels=2, dtype="mixed_bfloat16"), "bfloat16",
            tokenizer=TOKENIZER)  # fmt: skip
    tagger = BertFeatureTagger(CONFIG, num_labels=2, layers="last", lstm_units=2)
    refused(tagger, "is a BertFeatureTagger; expected one of BertClassif", tokenizer=TOKENIZER)
    BertClassifier(CONFIG, num_labels=2).save_pretrained(tmp_path / "no-vocabulary")
    refused(tmp_path / "no-vocabulary", "has no vocabulary")
    model.save_pretrained(tmp_path / "model")
    refused(tmp_path / "model", "a model in memory", tokenizer=TOKENIZER)
    diverged = BertClassifier(CONFIG, num_labels=2)
    diverged.weights[-1].assign([0.5, np.nan])
    refused(diverged, f"{diverged.weights[-1].path} contains NaN", tokenizer=TOKENIZER)
    assert not [*tmp_path.glob("name/*")]


def test_an_existing_version_is_not_overwritten(model, written):
    before = (written / "saved_model.pb").read_bytes()
    with pytest.raises(InputError, match="name/1 exists already"):
        model.export(written)
    assert (written / "saved_model.pb").read_bytes() == before


def test_a_saved_model_with_other_outputs_or_tokens_is_refused(model, tmp_path, monkeypatch):
    def other_outputs(folder, requests):
        first, *others = run_requests(folder, requests)
        return [{**first, "label": [*first["label"][1:], "?"]}, *others]

    with monkeypatch.context() as patch:
        patch.setattr(saved_model, "run_in_fresh_process", other_outputs)
        with pytest.raises(RuntimeError, match="label of the signature serving_default differs"):
            model.export(tmp_path / "name" / "1")
    tokens = TextToInputs.tokens
    monkeypatch.setattr(TextToInputs, "tokens", lambda self, text: tokens(self, "x" + text))
    with pytest.raises(RuntimeError, match="the graph tokenizes 'A short"):
        model.export(tmp_path / "name" / "1")
    assert not [*tmp_path.glob("name/*")]


OUTPUTS = to_arrays(
    {"label": tf.constant(["né", ""]), "score": tf.constant([[0.5, 200.0], [0, 1]])}
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": [[0.500001, 200.001], [0, 1]]}, None),
        ({"label": ["ne", ""]}, "output label of the signature tensors differs"),
        ({"label": [""]}, r"shape \(1,\); expected \(2,\)"),
        ({"score": [[0.5, 200], [0, 1.1]]}, "differs by 1.0e-01"),
        ({"score": [[0.5, 200], [0, np.nan]]}, "differs by nan"),
    ],
)
def test_outputs_are_compared_with_a_tolerance(changes, message):
    served = {name: array.tolist() for name, array in OUTPUTS.items()} | changes
    if message is None:
        check_outputs(served, OUTPUTS, signature="tensors")
        return
    with pytest.raises(RuntimeError, match=message):
        check_outputs(served, OUTPUTS, signature="tensors")


def test_an_op_that_the_server_lacks_is_refused(written, tmp_path):
    check_ops(written)
    module = tf.Module()
    module.decode = tf.function(
        lambda image: {"image": tf.raw_ops.DecodeJxl(contents=image)},
        input_signature=[tf.TensorSpec([], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.decode)
    with pytest.raises(InputError, match=r"DecodeJxl, which TF Serving 2\.20 does not have"):
        check_ops(tmp_path)


def test_a_fresh_process_returns_plain_lists_without_keras(tmp_path, monkeypatch):
    module = tf.Module()
    module.double = tf.function(
        lambda x, name: {"y": 2 * x, "name": name},
        input_signature=[tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"double": module.double})
    (tmp_path / "keras.py").write_text("raise SystemExit('imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    requests = [
        {"signature": "double", "inputs": {"x": [1, 2], "name": ["é", ""]}},
        {"signature": "double", "inputs": {"x": [], "name": []}},
        {"signature": "double", "inputs": {"x": [3], "name": ["né".encode()]}},
    ]
    expected = [{"y": [2, 4], "name": ["é", ""]}, {"y": [], "name": []}, {"y": [6], "name": ["né"]}]
    assert run_requests(tmp_path / "1", requests) == expected
    assert run_in_fresh_process(tmp_path / "1", requests) == expected
    with pytest.raises(RuntimeError, match=r"(?s)fails in a fresh process: .*SavedModel"):
        run_in_fresh_process(tmp_path, [])


def test_a_version_stores_metadata_and_digests_of_its_files(tmp_path, not_verified):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text('{"seed": 3}')
    (tmp_path / "run" / "scores.json").write_text('{"accuracy": 0.93}')
    metadata = ModelMetadata(
        model="BertClassifier",
        config=CONFIG,
        lowercase=True,
        max_length=24,
        text_columns=("review",),
        labels=("schlecht", "größer"),
        problem_type="single_label_classification",
        task={"name": "classification", "long_texts": "error"},
    )
    model = BertClassifier.from_metadata(metadata)
    save_model(model, tmp_path / "run/model", metadata=metadata, vocabulary=TOKENIZER.vocabulary)
    folder = export(tmp_path / "run" / "model", tmp_path / "name" / "1")
    stored = json.loads((folder / METADATA).read_text("utf-8"))
    assert stored["card"] == json.loads(json.dumps(metadata.to_dict()))
    assert stored["training"] == {"recipe": {"seed": 3}, "scores": {"accuracy": 0.93}}
    assert stored["versions"]["tensorflow"] == tf.__version__
    check_files(folder)
    for name in ("assets/vocab.txt", "saved_model.pb"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-9])
        with pytest.raises(InputError, match=f"{name} is missing or damaged"):
            check_files(folder)
        (folder / name).write_bytes(whole)
    # TensorFlow checks the variables itself.
    (variables,) = (folder / "variables").glob("*.data-*")
    content = bytearray(variables.read_bytes())
    content[len(content) // 2] ^= 1
    variables.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        run_requests(folder, [])


CLS, SEP = TOKENIZER.vocabulary.cls_id, TOKENIZER.vocabulary.sep_id


@pytest.fixture(scope="module")
def tensors(model):
    """Returns the signature with the checks and without them."""
    plain = traced(
        lambda **inputs: {"logits": model(inputs, training=False)}, **tensor_specs(rank=2)
    )
    settings = {"max_positions": 16, "vocab_size": CONFIG.vocab_size, "cls_id": CLS}
    return checked_tensors(plain, **settings), plain


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


@pytest.mark.parametrize("name", ["input_ids", "input_mask", "segment_ids"])
def test_rows_longer_than_the_model_reads_are_refused(tensors, name):
    inputs = inputs_of([[CLS, 7, SEP]])
    inputs[name] = np.ones([1, 20_000_000], np.int32)  # whose embeddings would take 2.5 GB
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} has more than the 16 pos"):
        logits(tensors[0], inputs)


@pytest.mark.parametrize("token_id", [-1, -100, CONFIG.vocab_size])
def test_ids_that_no_token_has_are_refused(tensors, token_id):
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids other than 0 to 17"):
        logits(tensors[0], inputs_of([[CLS, token_id, SEP]]))


def test_names_of_models_and_versions(tmp_path):
    for name in ("", ".", "..", "a/b", "/a", "a/", "a:b", "a\n", "\udcff"):
        with pytest.raises(InputError, match="expected a folder name"):
            check_model_name(name)
    for name in ("sst2", "größe", "a b", "-x", "..."):
        check_model_name(name)
    assert is_version(str(2**63 - 1)) and not is_version(str(2**63))
    assert next_version(tmp_path / "none") == 1
    for name in ("2", "0010", "x", "²", "-50", str(2**63)):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11
