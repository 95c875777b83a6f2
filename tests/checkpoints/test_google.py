"""Google's checkpoints: those of fixtures/google were made by the original's own code."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError

FIXTURES = Path(__file__).parent / "fixtures" / "google"
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
    metadata = checkpoint.metadata
    assert (metadata.model, metadata.labels, metadata.lowercase) == (model, labels, True)
    assert metadata.config.activation == "gelu_tanh"
    assert metadata.config.layer_norm_epsilon == 1e-12
    assert (metadata.config.num_layers, metadata.config.num_heads, metadata.max_length) == (
        2,
        2,
        12,
    )
    assert len(checkpoint.vocabulary) == metadata.config.vocab_size
    assert checkpoint.state.step == 3
    assert len(checkpoint.state.momentums) == len(checkpoint.state.velocities) == trained
    assert set(checkpoint.tensors) == {row.name for row in rows(metadata)}
    by_prefix = open_checkpoint(FIXTURES / name / NAMES[name])
    assert by_prefix.metadata == metadata


def test_missing_heads_change_the_model_class(copy):
    reader = tf.train.load_checkpoint(str(copy / "bert_model.ckpt"))
    names = list(reader.get_variable_to_shape_map())
    state = [name for name in names if name.endswith(("adam_m", "adam_v"))] + ["global_step"]
    labels = [name for name in names if name.startswith("cls/seq_relationship/")]
    pooler = [name for name in names if name.startswith("bert/pooler/")]
    words = [name for name in names if name.startswith("cls/predictions/")]
    change_variables(copy, drop={*state, *labels})
    checkpoint = open_checkpoint(copy)
    assert (checkpoint.metadata.model, checkpoint.state) == ("BertMaskedLM", None)
    change_variables(copy, drop=pooler)
    assert not open_checkpoint(copy).metadata.config.has_pooler
    change_variables(copy, drop=words)
    assert open_checkpoint(copy).metadata.model == "BertEncoder"


def test_capitals_in_the_vocabulary_mean_cased(copy):
    text = (copy / "vocab.txt").read_text()
    (copy / "vocab.txt").write_text(text.replace("\na\n", "\n<S>\n"))
    assert open_checkpoint(copy).metadata.lowercase
    (copy / "vocab.txt").write_text(text.replace("\na\n", "\nA\n"))
    assert not open_checkpoint(copy).metadata.lowercase
    (copy / "vocab.txt").unlink()
    assert open_checkpoint(copy).vocabulary is None


def test_one_of_several_checkpoints_must_be_named(copy, caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    for ending in (INDEX, DATA):
        shutil.copy(copy / f"bert_model.ckpt{ending}", copy / f"model.ckpt-9{ending}")
    assert "contains 2 checkpoints; give the path of one: " in refusal(copy)
    change_variables(copy, drop=["cls/predictions/output_bias"])
    assert "cls/predictions/output_bias is missing" in refusal(copy / "bert_model.ckpt")
    (copy / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"\n')
    assert open_checkpoint(copy).metadata.model == "BertPretrainer"
    (copy / "checkpoint").write_text("model_checkpoint_path: [")
    assert "give the path of one" in refusal(copy)
    assert not caplog.records


@pytest.mark.parametrize("name", ["a[b]", "a\\b", "a*b?"])
def test_paths_with_glob_characters_are_read(copy, name, tmp_path):
    expected = open_checkpoint(copy).tensors
    (tmp_path / name).mkdir()
    folder = Path(shutil.move(copy, tmp_path / name))
    for ending in (INDEX, DATA):
        (folder / f"bert_model.ckpt{ending}").rename(folder / f"{name}{ending}")
    for opened in (open_checkpoint(folder), open_checkpoint(folder / name)):
        for ours, tensor in expected.items():
            np.testing.assert_array_equal(opened.tensors[ours].read(), tensor.read())
    (folder / f"{name}{INDEX}").write_bytes(b"")
    assert "is damaged or not of a checkpoint" in refusal(folder)


@pytest.mark.parametrize("ending", [INDEX, DATA])
def test_a_git_lfs_pointer_is_refused(copy, ending):
    file = copy / f"bert_model.ckpt{ending}"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert f"{file} is a Git LFS pointer, not the file itself; fetch it with" in refusal(copy)


def test_output_weights_are_transposed():
    tensors = open_checkpoint(FIXTURES / "classifier").tensors
    kernel = tensors["classification/dense/kernel"].read()
    assert kernel.shape == (8, 3) and kernel.dtype == np.float32 and kernel.flags.c_contiguous


def test_missing_and_truncated_files_are_refused(copy):
    prefix = copy / "bert_model.ckpt"
    index, data = (Path(f"{prefix}{ending}") for ending in (INDEX, DATA))
    content = {path: path.read_bytes() for path in (index, data)}
    data.unlink()
    assert f"{data} is missing; add it, because bert_model.ckpt.index" in refusal(copy)
    for damaged, reason in ((content[data][:10], "Read"), (b"\0" + content[data][1:], "hecks")):
        data.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"is damaged at .* \(.*{reason}"):
            open_checkpoint(copy).tensors["encoder/embeddings/norm/beta"].read()
    index.write_bytes(content[index][:2000])
    assert f"{index} is damaged or not of a checkpoint (not an sstable" in refusal(prefix)
    index.write_bytes(b"")
    assert f"{index} is damaged or not of a checkpoint" in refusal(prefix)
    index.unlink()
    assert "has no .index file; expected bert_model.ckpt.index" in refusal(copy)
    index.write_bytes(content[index])
    (copy / "bert_config.json").unlink()
    assert "bert_config.json is missing; add the file" in refusal(copy)


def test_a_tensorflow_2_checkpoint_is_refused(copy):
    tf.train.Checkpoint(step=tf.Variable(1)).write(str(copy / "bert_model.ckpt"))
    assert "is a checkpoint of TensorFlow 2 objects; expected one of" in refusal(copy)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "swish"}, "hidden_act is 'swish'; expected one of gelu, relu, tanh"),
        ({"hidden_act": ["gelu"]}, "hidden_act is ['gelu']; expected one of gelu, relu, tanh"),
        ({"hidden_act": "linear"}, "hidden_act is 'linear'; expected one of gelu, relu, tanh"),
        ({"hidden_size": None, "vocab_size": None}, "lacks hidden_size, vocab_size; add what"),
        ({"embedding_size": 128}, "has embedding_size, which Google's BERT does not know; if that"),
        ({"num_hidden_layers": "2"}, "bert_config.json: num_layers is '2'; expected int"),
        ({"num_hidden_layers": 3}, "layer_2/attention/self/query/kernel is missing"),
        ({"hidden_size": 16}, "bert/pooler/dense/kernel has the shape (8, 8), expected (16, 16)"),
        ({"type_vocab_size": 3}, "token_type_embeddings has the shape (2, 8), expected (3, 8)"),
        ({"vocab_size": 30}, "word_embeddings has the shape (23, 8), expected (30, 8)"),
        ({"bert_keras": [1]}, "bert-keras did not write this bert_keras"),
        ({"bert_keras": {"head": 1}}, "bert-keras did not write this bert_keras"),
        ({"bert_keras": {"max_length": "long"}}, "bert-keras did not write this bert_keras"),
        ({"bert_keras": {"lowercase": "no"}}, "bert-keras did not write this bert_keras"),
        ({"bert_keras": {"text_columns": [1]}}, "bert-keras did not write this bert_keras"),
    ],
)
def test_impossible_configs_are_refused(copy, changes, message):
    change_config(copy, **changes)
    assert message in refusal(copy)


def test_fields_without_effect_are_accepted_and_rates_have_defaults(copy):
    change_config(
        copy,
        directionality="bidi",
        pooler_type="first_token_transform",
        hidden_dropout_prob=None,
        mine=3,
    )
    assert open_checkpoint(copy, ignore=("mine",)).metadata.config.hidden_dropout_rate == 0.1


def test_unknown_variables_must_be_ignored_by_name(copy):
    change_variables(copy, loss_scale=np.float32(1), steps__skipped=np.int64(0))
    assert "loss_scale is unexpected; steps/skipped is unexpected" in refusal(copy)
    checkpoint = open_checkpoint(copy, ignore=("loss_scale", "steps/skipped"))
    assert checkpoint.unused == ("loss_scale", "steps/skipped")
    assert checkpoint.state.step == 3
    with pytest.raises(InputError, match=r"to ignore .* called loss_scal; is it loss_scale\?"):
        open_checkpoint(copy, ignore=("loss_scale", "steps/skipped", "loss_scal"))


def test_an_incomplete_training_state_must_be_ignored_by_name(copy):
    change_variables(copy, drop=["bert/pooler/dense/bias/adam_m"])
    message = refusal(copy)
    assert "in the variables /adam_m, the weights are not" in message
    assert "bert/pooler/dense/bias is missing; to ignore the training state: ignore=('g" in message
    checkpoint = open_checkpoint(copy, ignore=("global_step",))
    assert checkpoint.state is None
    assert checkpoint.unused == ("global_step",)
    change_variables(copy, drop=["global_step"])
    assert "the checkpoint has adam_m and adam_v but no global_step" in refusal(copy)
    assert open_checkpoint(copy, ignore=("global_step",)).state is None


def test_a_short_vocabulary_can_be_padded(copy):
    tokens = (copy / "vocab.txt").read_text().splitlines()
    (copy / "vocab.txt").write_text("\n".join(tokens[:-2]) + "\n")
    assert "or append 2 unused tokens" in refusal(copy)
