"""Google's checkpoints there and back: the fixtures, the shared ones, all models of ours."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.google.folder import GOOGLE, read_config
from bert_keras.checkpoints.mapping import translated
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError

FOLDER = Path(__file__).parent
FIXTURES = FOLDER / "fixtures" / "google"
NAMES = {"pretraining": "bert_model.ckpt", "classifier": "model.ckpt-3", "squad": "model.ckpt-3"}
ENDINGS = (".index", ".data-00000-of-00001")


@pytest.mark.parametrize("name", ["pretraining", "classifier", "squad"])
def test_google_to_native_to_google_returns_the_same_files(name, tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / name), tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "back", format="google")
    assert_same_files(FIXTURES / name / NAMES[name], tmp_path / "back" / "bert_model.ckpt")
    original, back = (json.loads((folder / "bert_config.json").read_text())
                   for folder in (FIXTURES / name, tmp_path / "back"))  # fmt: skip
    assert back.pop("bert_keras")["labels"] == list(
        open_checkpoint(FIXTURES / name).metadata.labels
    )
    assert original == back


def test_an_untrained_pooler_has_no_averages(tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / "squad"), tmp_path / "back", format="google")
    assert_same_files(FIXTURES / "squad" / NAMES["squad"], tmp_path / "back" / "bert_model.ckpt")


def assert_same_files(expected, written):
    for ending in ENDINGS:
        assert Path(f"{written}{ending}").read_bytes() == Path(f"{expected}{ending}").read_bytes()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "tanh"])
@pytest.mark.parametrize(
    "model",
    ["BertEncoder", "BertPretrainer", "BertMaskedLM", "BertClassifier", "BertQuestionAnswering"],
)
def test_native_to_google_to_native_returns_the_same_files(checkpoint, model, activation, tmp_path):
    original = checkpoint(model, activation=activation, has_pooler=model != "BertMaskedLM")
    for path, source, format in (
        ("ours", None, "bert-keras"),
        ("theirs", "ours", "google"),
        ("back", "theirs", "bert-keras"),
    ):
        original = original if source is None else open_checkpoint(tmp_path / source)
        write_checkpoint(original, tmp_path / path, format=format)
    for name in ("bert_keras.json", "vocab.txt", "weights.safetensors"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "back" / name).read_bytes()


def test_differences_of_googles_code_are_noted(checkpoint, tmp_path):
    original = checkpoint("BertMaskedLM", layer_norm_epsilon=1e-5, has_pooler=False)
    gelu, epsilon, pooler = write_checkpoint(original, tmp_path / "theirs", format="google")
    assert gelu.startswith(
        "Google's code approximates GELU by tanh, this model computes it exactly"
    )
    assert "epsilon of 1e-12, this model has 1e-05" in epsilon
    assert "no pooler: Google's code starts with a random one" in pooler
    plain = checkpoint("BertPretrainer", activation="gelu_tanh")
    assert write_checkpoint(plain, tmp_path / "plain", format="google") == ()
    with pytest.raises(InputError, match="Google's BERT has no activation silu; choose another"):
        write_checkpoint(
            checkpoint("BertEncoder", activation="silu"), tmp_path / "silu", format="google"
        )
    assert not (tmp_path / "silu").exists()


def test_a_file_size_limit_is_reported_with_the_path(file_size_limit, tmp_path):
    original = open_checkpoint(FIXTURES / "pretraining")
    with file_size_limit(4096), pytest.raises(OSError, match="File too large") as error:
        write_checkpoint(original, tmp_path / "out", format="google")
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_tf1_saver_restores_the_written_files(tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / "pretraining"), tmp_path / "out", format="google")
    newest = tf.train.latest_checkpoint(tmp_path / "out")
    assert newest == str(tmp_path / "out" / "bert_model.ckpt")
    reader = tf.train.load_checkpoint(str(tmp_path / "out"))
    shapes = reader.get_variable_to_shape_map()
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        dtypes = reader.get_variable_to_dtype_map()
        variables = {
            n: v1.get_variable(n, shapes[n], dtypes[n], v1.zeros_initializer()) for n in shapes
        }
        v1.train.Saver().restore(session, newest)
        restored = session.run(variables)
    assert restored["global_step"] == 3 and restored["global_step"].dtype == np.int64
    for name, array in restored.items():
        np.testing.assert_array_equal(array, reader.get_tensor(name))


def test_the_toy_checkpoint_comes_back_byte_for_byte(shared_data, tmp_path):
    toy = shared_data / "checkpoints" / "keras_bert_test_checkpoint"
    checkpoint = open_checkpoint(toy)
    assert (checkpoint.metadata.model, checkpoint.state.step) == ("BertPretrainer", 20)
    write_checkpoint(checkpoint, tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "back", format="google")
    assert_same_files(toy / "bert_model.ckpt", tmp_path / "back" / "bert_model.ckpt")
    assert open_checkpoint(tmp_path / "back").vocabulary == checkpoint.vocabulary


@pytest.mark.parametrize(
    ("name", "count", "weights"),
    [("uncased_L-4_H-256_A-4", 78, 11_267_900), ("chinese_L-12_H-768_A-12", 206, 102_882_442)],
)
def test_every_name_of_the_real_models_is_mapped(shared_data, name, count, weights):
    folder = shared_data / "checkpoints" / name
    with pytest.raises(InputError, match=r"bert_model.ckpt.data-00000-of-00001 is missing"):
        open_checkpoint(folder)
    config, _ = read_config(folder / "bert_config.json", ignore=())
    shapes = tf.train.load_checkpoint(str(folder / "bert_model.ckpt")).get_variable_to_shape_map()
    assert len(shapes) == count
    foreign = {name: StoredTensor(tuple(shape), lambda: None) for name, shape in shapes.items()}
    metadata = dataclasses.replace(
        open_checkpoint(FIXTURES / "pretraining").metadata, config=config
    )
    tensors, unused = translated(foreign, metadata=metadata, column=GOOGLE)
    assert (len(tensors), unused) == (count, ())
    assert sum(prod(tensor.shape) for tensor in tensors.values()) == weights


@pytest.mark.skipif(
    "BERT_ORIGINAL" not in os.environ, reason="BERT_ORIGINAL names no folder with the original"
)
def test_the_original_code_makes_the_same_fixtures(tmp_path):
    script = str(FOLDER / "make_google_fixtures.py")
    subprocess.run([sys.executable, script, str(tmp_path)], check=True, capture_output=True)
    for name, prefix in NAMES.items():
        written, expected = (
            np.load(folder / name / "golden.npz") for folder in (FIXTURES, tmp_path)
        )
        for key in expected:
            np.testing.assert_allclose(written[key], expected[key], rtol=1e-5, atol=1e-6)
        written, expected = (
            tf.train.load_checkpoint(str(folder / name / prefix)) for folder in (FIXTURES, tmp_path)
        )
        assert written.get_variable_to_shape_map() == expected.get_variable_to_shape_map()
