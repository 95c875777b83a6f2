"""Google's checkpoints: those of fixtures/google were made by the original's own code."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.convert import google
from bert_keras.convert.checkpoint import StoredTensor
from bert_keras.convert.formats import open_checkpoint, write_checkpoint
from bert_keras.convert.google_config import read_config
from bert_keras.convert.mapping import GOOGLE, rows, translated
from bert_keras.errors import InputError

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures" / "google"
NAMES = {"pretraining": "bert_model.ckpt", "classifier": "model.ckpt-3", "squad": "model.ckpt-3"}
INDEX, DATA = ".index", ".data-00000-of-00001"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(FIXTURES / "pretraining", tmp_path / "copy"))


def change_config(folder, **changes):
    values = json.loads((folder / "bert_config.json").read_text()) | changes
    values = {name: value for name, value in values.items() if value is not None}
    (folder / "bert_config.json").write_text(json.dumps(values))


def change_variables(folder, *, drop=(), **added):
    """The checkpoint without `drop` and with `added`, `__` in a name for a slash."""
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    arrays = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    arrays = {name: array for name, array in arrays.items() if name not in drop}
    arrays |= {name.replace("__", "/"): array for name, array in added.items()}
    save(folder / "bert_model.ckpt", arrays)


def save(prefix, arrays):
    names, tensors = list(arrays), [tf.constant(array) for array in arrays.values()]
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
    )


def refusal(path, **options) -> str:
    with pytest.raises(InputError) as error:
        open_checkpoint(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# What is read


@pytest.mark.parametrize(
    ("name", "model", "labels", "trained"),
    [
        ("pretraining", "BertPretrainer", (), 46),
        ("classifier", "BertClassifier", ("LABEL_0", "LABEL_1", "LABEL_2"), 41),
        ("squad", "BertQuestionAnswering", (), 39),  # no gradient reached the pooler
    ],
)
def test_the_variables_tell_the_model(name, model, labels, trained):
    checkpoint = open_checkpoint(FIXTURES / name)
    card = checkpoint.card
    assert (card.model, card.labels, card.lowercase) == (model, labels, True)
    assert card.config.activation == "gelu_tanh"
    assert card.config.layer_norm_epsilon == 1e-12
    assert (card.config.num_layers, card.config.num_heads, card.max_length) == (2, 2, 12)
    assert len(checkpoint.vocabulary) == card.config.vocab_size
    assert checkpoint.state.step == 3
    assert len(checkpoint.state.momentums) == len(checkpoint.state.velocities) == trained
    assert set(checkpoint.tensors) == {row.ours for row in rows(card)}
    by_prefix = open_checkpoint(FIXTURES / name / NAMES[name])
    assert by_prefix.card == card


def test_heads_that_are_not_there(copy):
    reader = tf.train.load_checkpoint(str(copy / "bert_model.ckpt"))
    names = list(reader.get_variable_to_shape_map())
    state = [name for name in names if name.endswith(("adam_m", "adam_v"))] + ["global_step"]
    labels = [name for name in names if name.startswith("cls/seq_relationship/")]
    pooler = [name for name in names if name.startswith("bert/pooler/")]
    words = [name for name in names if name.startswith("cls/predictions/")]
    change_variables(copy, drop={*state, *labels})
    checkpoint = open_checkpoint(copy)
    assert (checkpoint.card.model, checkpoint.state) == ("BertMaskedLM", None)
    change_variables(copy, drop=pooler)
    assert not open_checkpoint(copy).card.config.has_pooler
    change_variables(copy, drop=words)
    assert open_checkpoint(copy).card.model == "BertEncoder"


def test_capitals_in_the_vocabulary_mean_cased(copy):
    text = (copy / "vocab.txt").read_text()
    (copy / "vocab.txt").write_text(text.replace("\na\n", "\n<S>\n"))
    assert open_checkpoint(copy).card.lowercase
    (copy / "vocab.txt").write_text(text.replace("\na\n", "\nA\n"))
    assert not open_checkpoint(copy).card.lowercase
    (copy / "vocab.txt").unlink()
    assert open_checkpoint(copy).vocabulary is None


def test_one_of_several_is_named(copy):
    for ending in (INDEX, DATA):
        shutil.copy(copy / f"bert_model.ckpt{ending}", copy / f"model.ckpt-9{ending}")
    assert "holds 2 checkpoints; name one: " in refusal(copy)
    change_variables(copy, drop=["cls/predictions/output_bias"])
    assert "cls/predictions/output_bias is missing" in refusal(copy / "bert_model.ckpt")
    (copy / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"\n')
    assert open_checkpoint(copy).card.model == "BertPretrainer"
    (copy / "checkpoint").write_text("model_checkpoint_path: [")
    assert "name one" in refusal(copy)


# What is refused


def test_files_that_are_not_there_or_not_whole(copy):
    prefix = copy / "bert_model.ckpt"
    index, data = (Path(f"{prefix}{ending}") for ending in (INDEX, DATA))
    whole = {path: path.read_bytes() for path in (index, data)}
    data.unlink()
    assert f"{data} is missing: bert_model.ckpt.index alone has names" in refusal(copy)
    data.write_bytes(whole[data][:10_000])
    assert f"{data} is cut off: 10,000 bytes, expected {len(whole[data]):,}" in refusal(copy)
    data.write_bytes(b"\0" + whole[data][1:])
    with pytest.raises(InputError, match=r"is damaged at bert/embeddings/LayerNorm/beta \(.*hecks"):
        open_checkpoint(copy).tensors["encoder/embeddings/norm/beta"].read()
    index.write_bytes(whole[index][:2000])
    assert f"{index} is no checkpoint's (not an sstable" in refusal(prefix)
    index.write_bytes(b"")
    assert f"{index} is no checkpoint's" in refusal(prefix)
    index.unlink()
    assert "holds no .index; expected bert_model.ckpt.index" in refusal(copy)
    index.write_bytes(whole[index])
    (copy / "bert_config.json").unlink()
    assert "bert_config.json is missing: it says what" in refusal(copy)


def test_objects_of_tensorflow_2_are_not_variables(copy):
    tf.train.Checkpoint(step=tf.Variable(1)).write(str(copy / "bert_model.ckpt"))
    assert "is a checkpoint of TensorFlow 2's objects; expected one of" in refusal(copy)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "swish"}, "hidden_act is 'swish'; expected one of gelu, relu, tanh"),
        ({"hidden_act": "linear"}, "hidden_act is 'linear'; expected one of gelu, relu, tanh"),
        ({"hidden_size": None, "vocab_size": None}, "lacks hidden_size, vocab_size; complete it"),
        ({"embedding_size": 128}, "has embedding_size, unknown to Google's BERT; where that"),
        ({"num_hidden_layers": "2"}, "bert_config.json: num_layers is '2'; expected int"),
        ({"num_hidden_layers": 3}, "layer_2/attention/self/query/kernel is missing"),
        ({"hidden_size": 16}, "bert/pooler/dense/kernel is (8, 8), expected (16, 16)"),
        ({"type_vocab_size": 3}, "token_type_embeddings is (2, 8), expected (3, 8)"),
        ({"vocab_size": 30}, "word_embeddings is (23, 8), expected (30, 8)"),
        ({"bert_keras": [1]}, "bert_keras is not what bert-keras wrote"),
        ({"bert_keras": {"head": 1}}, "bert_keras has head, unknown here"),
    ],
)
def test_configs_that_cannot_be(copy, changes, said):
    change_config(copy, **changes)
    assert said in refusal(copy)


def test_fields_without_effect_are_accepted_and_rates_have_defaults(copy):
    change_config(
        copy,
        directionality="bidi",
        pooler_type="first_token_transform",
        hidden_dropout_prob=None,
        mine=3,
    )
    assert open_checkpoint(copy, ignore=("mine",)).card.config.hidden_dropout_rate == 0.1


def test_variables_that_nobody_knows_are_left_over_by_name_alone(copy):
    change_variables(copy, loss_scale=np.float32(1), steps__skipped=np.int64(0))
    assert "loss_scale is unexpected; steps/skipped is unexpected" in refusal(copy)
    checkpoint = open_checkpoint(copy, ignore=("loss_scale", "steps/skipped"))
    assert checkpoint.left_over == ("loss_scale", "steps/skipped")
    assert checkpoint.state.step == 3


def test_a_training_state_is_whole_or_left_by_name(copy):
    change_variables(copy, drop=["bert/pooler/dense/bias/adam_m"])
    said = refusal(copy)
    assert "of the variables /adam_m, the weights are not" in said
    assert "bert/pooler/dense/bias is missing; to leave the training state: ignore=('glob" in said
    checkpoint = open_checkpoint(copy, ignore=("global_step",))
    assert checkpoint.state is None
    assert len(checkpoint.left_over) == 1 + 46 + 45
    change_variables(copy, drop=["global_step"])
    assert "there is adam_m and adam_v but no global_step to continue from" in refusal(copy)
    assert open_checkpoint(copy, ignore=("global_step",)).state is None


def test_padding_the_vocabulary_is_offered(copy):
    pieces = (copy / "vocab.txt").read_text().splitlines()
    (copy / "vocab.txt").write_text("\n".join(pieces[:-2]) + "\n")
    assert "pad the vocabulary by 2 unused pieces" in refusal(copy)


# Round trips


@pytest.mark.parametrize("name", ["pretraining", "classifier"])
def test_theirs_to_ours_to_theirs_is_the_same_file(name, tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / name), tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "back", format="google")
    assert_same_files(FIXTURES / name / NAMES[name], tmp_path / "back" / "bert_model.ckpt")
    given, back = (json.loads((folder / "bert_config.json").read_text())
                   for folder in (FIXTURES / name, tmp_path / "back"))  # fmt: skip
    assert back.pop("bert_keras")["labels"] == list(open_checkpoint(FIXTURES / name).card.labels)
    assert given == back


def test_a_pooler_that_was_not_trained_has_no_averages_either_way(tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / "squad"), tmp_path / "back", format="google")
    assert_same_files(FIXTURES / "squad" / NAMES["squad"], tmp_path / "back" / "bert_model.ckpt")


def assert_same_files(theirs, ours):
    for ending in (INDEX, DATA):
        assert Path(f"{ours}{ending}").read_bytes() == Path(f"{theirs}{ending}").read_bytes()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "tanh"])
@pytest.mark.parametrize(
    "model",
    ["BertEncoder", "BertPretrainer", "BertMaskedLM", "BertClassifier", "BertQuestionAnswering"],
)
def test_ours_to_theirs_to_ours_is_the_same_folder(checkpoint, model, activation, tmp_path):
    given = checkpoint(model, activation=activation, has_pooler=model != "BertMaskedLM")
    for path, source, format in (
        ("ours", None, "bert-keras"),
        ("theirs", "ours", "google"),
        ("back", "theirs", "bert-keras"),
    ):
        given = given if source is None else open_checkpoint(tmp_path / source)
        write_checkpoint(given, tmp_path / path, format=format)
    for name in ("bert_keras.json", "vocab.txt", "weights.safetensors"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "back" / name).read_bytes()


def test_what_their_readers_do_otherwise_is_told(checkpoint, tmp_path):
    given = checkpoint("BertMaskedLM", layer_norm_epsilon=1e-5, has_pooler=False)
    gelu, epsilon, pooler = write_checkpoint(given, tmp_path / "theirs", format="google")
    assert gelu.startswith("Google's readers compute GELU by tanh, this model exactly")
    assert "an epsilon of 1e-12, this model with 1e-05" in epsilon
    assert "no pooler: Google's readers begin with a fresh one" in pooler
    plain = checkpoint("BertPretrainer", activation="gelu_tanh")
    assert write_checkpoint(plain, tmp_path / "plain", format="google") == ()
    with pytest.raises(InputError, match="Google's BERT has no activation silu; write another"):
        write_checkpoint(
            checkpoint("BertEncoder", activation="silu"), tmp_path / "silu", format="google"
        )
    assert not (tmp_path / "silu").exists()


def test_a_saver_restores_what_is_written(tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / "pretraining"), tmp_path / "out", format="google")
    newest = tf.train.latest_checkpoint(tmp_path / "out")
    assert newest == str(tmp_path / "out" / "bert_model.ckpt")
    reader = tf.train.load_checkpoint(str(tmp_path / "out"))
    shapes = reader.get_variable_to_shape_map()
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        dtypes = reader.get_variable_to_dtype_map()
        variables = {n: v1.get_variable(n, shapes[n], dtypes[n]) for n in shapes}
        v1.train.Saver().restore(session, newest)
        restored = session.run(variables)
    assert restored["global_step"] == 3 and restored["global_step"].dtype == np.int64
    for name, array in restored.items():
        np.testing.assert_array_equal(array, reader.get_tensor(name))


# The shared checkpoints


def test_the_toy_checkpoint_comes_back_byte_for_byte(shared_data, tmp_path):
    toy = shared_data / "checkpoints" / "keras_bert_test_checkpoint"
    checkpoint = open_checkpoint(toy)
    assert (checkpoint.card.model, checkpoint.state.step) == ("BertPretrainer", 20)
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
    assert "bert_model.ckpt.data-00000-of-00001 is missing" in refusal(folder)
    config, _ = read_config(folder / "bert_config.json", ignore=())
    shapes = tf.train.load_checkpoint(str(folder / "bert_model.ckpt")).get_variable_to_shape_map()
    assert len(shapes) == count
    foreign = {name: StoredTensor(tuple(shape), lambda: None) for name, shape in shapes.items()}
    card = dataclasses.replace(open_checkpoint(FIXTURES / "pretraining").card, config=config)
    tensors, left_over = translated(foreign, card=card, column=GOOGLE)
    assert (len(tensors), left_over) == (count, ())
    assert sum(prod(tensor.shape) for tensor in tensors.values()) == weights


def test_a_read_brings_one_variable_at_a_time():
    tensors = google.read(FIXTURES / "classifier", ignore=(), pad_vocabulary=False).tensors
    kernel = tensors["classification/dense/kernel"].read()
    assert kernel.shape == (8, 3) and kernel.dtype == np.float32 and kernel.flags.c_contiguous


@pytest.mark.skipif(
    "BERT_ORIGINAL" not in os.environ, reason="BERT_ORIGINAL names no folder with the original"
)
def test_the_original_still_makes_these_fixtures(tmp_path):
    script = str(HERE / "make_google_fixtures.py")
    subprocess.run([sys.executable, script, str(tmp_path)], check=True, capture_output=True)
    for name, prefix in NAMES.items():
        ours, theirs = (np.load(folder / name / "golden.npz") for folder in (FIXTURES, tmp_path))
        for key in theirs:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-5, atol=1e-6)
        ours, theirs = (
            tf.train.load_checkpoint(str(folder / name / prefix)) for folder in (FIXTURES, tmp_path)
        )
        assert ours.get_variable_to_shape_map() == theirs.get_variable_to_shape_map()
