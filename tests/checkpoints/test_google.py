"""Google's checkpoints; the original code wrote the folders of fixtures/google."""

import json
import os
import shutil
from math import prod
from pathlib import Path

import numpy as np
import pytest

from bert_keras.checkpoints import google
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.errors import InputError
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import load_model
from tests.checkpoints.conftest import assert_round_trip, change_json
from tests.factories import random_checkpoint
from tests.relatives import CHANGES
from tests.tensorflow_or_skip import needs_tensorflow, tf

FIXTURES = Path(__file__).parent / "fixtures" / "google"
NAMES = {"pretraining": "bert_model.ckpt", "classifier": "model.ckpt-3", "squad": "model.ckpt-3"}
pytestmark = needs_tensorflow
INDEX, DATA = ".index", ".data-00000-of-00001"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(FIXTURES / "pretraining", tmp_path / "copy"))


def change_variables(folder, *, drop=(), **added):
    """Writes the checkpoint without `drop` and with `added`, `__` in a name for a slash."""
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    arrays = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    arrays = {name: array for name, array in arrays.items() if name not in drop}
    arrays |= {name.replace("__", "/"): array for name, array in added.items()}
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=[*arrays],
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )


@pytest.mark.parametrize(
    ("name", "model", "labels", "trained"),
    [
        ("pretraining", "BertPretrainer", (), 46),
        ("classifier", "BertClassifier", ("LABEL_0", "LABEL_1", "LABEL_2"), 41),
        ("squad", "BertQuestionAnswering", (), 39),  # no gradient reached the pooler
    ],
)
def test_variable_names_decide_the_model_class(name, model, labels, trained):
    checkpoint = open_checkpoint(FIXTURES / name)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    assert (metadata.model, metadata.labels, metadata.lowercase) == (model, labels, True)
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_tanh", 1e-12)
    assert (config.num_layers, config.num_heads, metadata.max_length) == (2, 2, 12)
    assert checkpoint.state.step == 3
    assert len(checkpoint.state.momentums) == len(checkpoint.state.velocities) == trained
    assert open_checkpoint(FIXTURES / name / NAMES[name]).metadata == metadata
    assert not load_model(FIXTURES / name).load_report.unused


def test_a_head_that_google_trained_on_our_folder_has_its_own_labels(tmp_path):
    shutil.copytree(FIXTURES / "classifier", tmp_path / "it")
    change_json(tmp_path / "it" / "bert_config.json", bert_keras={"labels": [], "max_length": 9})
    metadata = load_model(tmp_path / "it").metadata
    assert (metadata.labels[1:], metadata.max_length) == (("LABEL_1", "LABEL_2"), 9)


def test_missing_heads_change_the_model_class(copy):
    names = [*tf.train.load_checkpoint(str(copy / "bert_model.ckpt")).get_variable_to_shape_map()]
    state = [name for name in names if name.endswith(("adam_m", "adam_v"))] + ["global_step"]
    for part, model in (("seq_relationship", "BertMaskedLM"), ("cls/predictions", "BertEncoder")):
        change_variables(copy, drop={*state, *(name for name in names if part in name)})
        checkpoint = open_checkpoint(copy)
        assert (checkpoint.metadata.model, checkpoint.state) == (model, None)
    change_variables(copy, drop=[name for name in names if "pooler" in name])
    (copy / "vocab.txt").write_text((copy / "vocab.txt").read_text().replace("\na\n", "\nA\n"))
    metadata = open_checkpoint(copy).metadata
    assert not metadata.config.has_pooler and not metadata.lowercase  # it has a capital letter


def test_one_of_several_checkpoints_must_be_named(copy):
    for ending in (INDEX, DATA):
        shutil.copy(copy / f"bert_model.ckpt{ending}", copy / f"model.ckpt-9{ending}")
    with pytest.raises(InputError):
        open_checkpoint(copy)
    assert load_model(copy / "bert_model.ckpt")
    change_variables(copy, drop=["cls/predictions/output_bias"])
    with pytest.raises(InputError):
        load_model(copy / "bert_model.ckpt")
    (copy / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"\n')
    assert open_checkpoint(copy).metadata.model == "BertPretrainer"


def test_missing_and_damaged_files_are_refused(copy):
    index, data = (copy / f"bert_model.ckpt{ending}" for ending in (INDEX, DATA))
    contents = {path: path.read_bytes() for path in (index, data)}
    damaged = {
        data: (None, contents[data][:10], b"\0" + contents[data][1:]),
        index: (contents[index][:2000], b""),
    }
    for path in damaged:
        for content in damaged[path]:
            path.unlink() if content is None else path.write_bytes(content)
            with pytest.raises(InputError):
                load_model(copy)
            path.write_bytes(contents[path])
    assert load_model(copy)  # an error leaves nothing behind
    tf.train.Checkpoint(step=tf.Variable(1)).write(str(copy / "bert_model.ckpt"))
    with pytest.raises(InputError):
        open_checkpoint(copy)
    index.unlink()
    os.mkfifo(index)
    with pytest.raises(InputError):
        open_checkpoint(copy)


@pytest.mark.parametrize(
    "changes",
    [
        *({"hidden_act": "swish"}, {"hidden_size": None, "vocab_size": None}, {"hidden_size": 16}),
        *({"num_hidden_layers": "2"}, {"num_hidden_layers": 3}, {"vocab_size": 30}),
        {"bert_keras": {"max_length": "long"}},
    ],
)
def test_impossible_configs_are_refused(copy, changes):
    change_json(copy / "bert_config.json", **changes)
    with pytest.raises(InputError):
        load_model(copy)


def test_names_to_ignore(copy):
    change_json(copy / "bert_config.json", hidden_dropout_prob=None, mine=3)
    change_variables(copy, loss_scale=np.float32(1), steps__skipped=np.int64(0))
    names = ("loss_scale", "steps/skipped")
    with pytest.raises(InputError):
        open_checkpoint(copy)
    checkpoint = open_checkpoint(copy, ignore=names)
    assert checkpoint.metadata.config.hidden_dropout_rate == 0.1
    assert (checkpoint.unused, checkpoint.state.step) == (names, 3)
    change_variables(copy, drop=["global_step"])
    with pytest.raises(InputError):
        open_checkpoint(copy, ignore=names)
    assert open_checkpoint(copy, ignore=(*names, "global_step")).state is None


@pytest.mark.parametrize("name", NAMES)
def test_google_to_native_to_google_returns_the_same_files(name, tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / name), tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "back", format="google")
    newest = tf.train.latest_checkpoint(tmp_path / "back")
    assert newest == str(tmp_path / "back" / "bert_model.ckpt")
    for end in (INDEX, DATA):
        expected = Path(f"{FIXTURES / name / NAMES[name]}{end}").read_bytes()
        assert Path(f"{newest}{end}").read_bytes() == expected
    folders = (FIXTURES / name, tmp_path / "back")
    original, back = (json.loads((f / "bert_config.json").read_text()) for f in folders)
    labels = back.pop("bert_keras")["labels"]
    assert labels == [*open_checkpoint(FIXTURES / name).metadata.labels]
    assert original == back


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "gelu_new", "relu", "tanh"])
@pytest.mark.parametrize(
    "model", ["BertEncoder", *(name for name, kind in KINDS.items() if kind.google_prefix)]
)
def test_native_to_google_to_native_returns_the_same_files(model, activation, tmp_path):
    config = {"activation": activation, "has_pooler": model != "BertMaskedLM"}
    assert_round_trip(random_checkpoint(model, config=config), tmp_path, format="google")


def test_differences_of_googles_code_are_noted(tmp_path):
    config = {"layer_norm_epsilon": 1e-5, "has_pooler": False}
    original = random_checkpoint("BertMaskedLM", config=config)
    notes = write_checkpoint(original, tmp_path / "theirs", format="google")
    assert [word in note for word, note in zip(("tanh", "1e-05", "pooler"), notes, strict=True)]
    plain = random_checkpoint("BertPretrainer", config={"activation": "gelu_tanh"})
    assert write_checkpoint(plain, tmp_path / "plain", format="google") == ()


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("BertEncoder", {"activation": "silu"}),
        ("BertSentenceEncoder", {}),
        ("BertTokenClassifier", {}),
        *(("BertEncoder", CHANGES[kind]) for kind in ("albert", "modernbert", "electra")),
    ],
)
def test_models_that_googles_code_does_not_have_are_refused(model, config, tmp_path):
    original = random_checkpoint(model, config=config)
    with pytest.raises(InputError):
        write_checkpoint(original, tmp_path / "x", format="google")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "count", "weights"),
    [("uncased_L-4_H-256_A-4", 78, 11_267_900), ("chinese_L-12_H-768_A-12", 206, 102_882_442)],
)
def test_every_name_of_the_real_models_is_known(shared_data, name, count, weights):
    folder = shared_data / "checkpoints" / name
    with pytest.raises(InputError):
        load_model(folder)
    config, _ = google.read_config(folder / "bert_config.json")
    names = google.weight_names(config)
    shapes = tf.train.load_checkpoint(str(folder / "bert_model.ckpt")).get_variable_to_shape_map()
    assert {*shapes} <= {*names.values()} and len(shapes) == count
    assert sum(map(prod, shapes.values())) == weights
