"""KerasHub's presets, without keras_hub: it made those of fixtures/keras_hub, and answered."""

import dataclasses
import errno
import json
import shutil
from pathlib import Path

import h5py
import ml_dtypes
import numpy as np
import pytest

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertMaskedLM
from bert_keras.models.encoder import BertEncoder

FIXTURES = Path(__file__).parent / "fixtures" / "keras_hub"
NAMES = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
NATIVE_FILES = ("bert_keras.json", "vocab.txt", "weights.safetensors")
QUERY = "layers/transformer_encoder/_self_attention_layer/query_dense/vars/0"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(FIXTURES / "masked_lm", tmp_path / "copy"))


@pytest.fixture
def classifier(tmp_path):
    return Path(shutil.copytree(FIXTURES / "classifier", tmp_path / "classifier"))


def golden(name: str) -> tuple[dict, dict]:
    with np.load(FIXTURES / name / "golden.npz") as file:
        arrays = dict(file)
    return {ours: arrays[f"inputs/{theirs}"] for theirs, ours in NAMES.items()}, arrays


def arrays(path: Path) -> dict[str, np.ndarray]:
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda n, o: found.update({n: o[()]} if hasattr(o, "shape") else {}))
    return found


def change(path: Path, **changes) -> None:
    values = json.loads(path.read_text())
    values["config"] = {**values["config"], **changes}
    path.write_text(json.dumps(values))


def refusal(path, **options) -> str:
    with pytest.raises(InputError) as error:
        open_checkpoint(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_equal(ours, theirs) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


# What is read


def test_a_masked_lm(copy):
    checkpoint = open_checkpoint(copy)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    assert (metadata.model, metadata.labels, metadata.lowercase, metadata.max_length) == (
        "BertMaskedLM", (), True, 9,
    )  # fmt: skip
    assert (config.vocab_size, config.num_layers, config.num_heads) == (16, 2, 2)
    assert (config.hidden_size, config.intermediate_size, config.max_positions) == (8, 12, 10)
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_tanh", 1e-12)
    assert config.hidden_dropout_rate == config.attention_dropout_rate == 0.2
    assert checkpoint.vocabulary.tokens[:6] == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a")
    assert (config.masked_lm_activation, config.masked_lm_epsilon) == ("gelu", 1e-5)
    assert checkpoint.notes == (
        "KerasHub's tokenizer keeps accents; ours strips them, as BERT's does",
    )


def test_accents_of_cased_texts(copy):
    change(copy / "tokenizer.json", lowercase=False, strip_accents=True)
    note = "KerasHub's tokenizer strips accents; ours keeps them in cased texts"
    assert note in open_checkpoint(copy).notes


def test_a_classifier_has_numbered_labels():
    metadata = open_checkpoint(FIXTURES / "classifier").metadata
    assert (metadata.model, metadata.labels) == (
        "BertClassifier",
        ("LABEL_0", "LABEL_1", "LABEL_2"),
    )


def test_a_backbone_alone_is_an_encoder(copy):
    for name in ("task.json", "task.weights.h5", "preprocessor.json", "metadata.json"):
        (copy / name).unlink()
    checkpoint = open_checkpoint(copy)
    assert (checkpoint.metadata.model, checkpoint.metadata.max_length) == ("BertEncoder", 10)
    assert len(checkpoint.tensors) == 39
    shutil.rmtree(copy / "assets")
    assert open_checkpoint(copy).vocabulary is None


def test_a_task_without_weights_is_noted(copy):
    (copy / "task.weights.h5").unlink()
    checkpoint = open_checkpoint(copy)
    assert checkpoint.metadata.model == "BertEncoder"
    note = "task.json describes a BertMaskedLM, but its head has no weights: it is not read"
    assert note in checkpoint.notes


@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
def test_a_git_lfs_pointer_is_refused(copy, name):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (copy / name).write_text(text)
    assert f"{copy / name} is a Git LFS pointer, not the file itself; fetch" in refusal(copy)


def test_labels_without_head_weights_are_refused(checkpoint, tmp_path):
    write_checkpoint(checkpoint("BertClassifier"), tmp_path / "new", format="keras-hub")
    (tmp_path / "new" / "task.weights.h5").unlink()
    assert f"{tmp_path / 'new' / 'task.weights.h5'} is missing" in refusal(tmp_path / "new")
    (tmp_path / "new" / "metadata.json").unlink()
    assert open_checkpoint(tmp_path / "new").metadata.model == "BertEncoder"


def test_a_huggingface_folder_with_keras_hub_weights_is_read_as_huggingface(
    checkpoint, copy, tmp_path
):
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "new", format="huggingface")
    shutil.copy(copy / "model.weights.h5", tmp_path / "new")
    assert open_checkpoint(tmp_path / "new").metadata.config.vocab_size == 20


def test_a_classifier_with_probabilities_is_noted(classifier):
    change(classifier / "task.json", activation="softmax")
    notes = open_checkpoint(classifier).notes
    assert "KerasHub's classifier returns softmax of the logits, ours the logits" in notes


def test_every_layer_equals_keras_hub():
    inputs, expected = golden("masked_lm")
    states = BertEncoder.from_pretrained(FIXTURES / "masked_lm").states(inputs)
    for number, state in enumerate(states.hidden_states):
        assert_equal(state, expected[f"states/{number}"])
    assert_equal(states.hidden_states[-1], expected["sequence_output"])
    assert_equal(states.pooled_output, expected["pooled_output"])


def test_classifier_logits_equal_keras_hub():
    inputs, expected = golden("classifier")
    model = BertClassifier.from_pretrained(FIXTURES / "classifier")
    assert_equal(model(inputs), expected["logits"])


def test_masked_lm_logits_equal_keras_hub():
    inputs, expected = golden("masked_lm")
    inputs |= {"masked_lm_positions": expected["inputs/mask_positions"]}
    folder, plain = FIXTURES / "masked_lm", {"masked_lm_activation": "", "masked_lm_epsilon": 0.0}
    for name, changes in (("logits", {}), ("alike", plain)):
        logits = BertMaskedLM.from_pretrained(folder, **changes)(inputs)["masked_lm"]
        assert_equal(logits, expected[name])


@pytest.mark.parametrize("format", ["google", "huggingface"])
def test_formats_that_cannot_state_the_masked_lm_head_note_it(format, tmp_path):
    checkpoint = open_checkpoint(FIXTURES / "masked_lm")
    notes = write_checkpoint(checkpoint, tmp_path / "it", format=format)
    assert notes[-1].startswith("the masked-LM head of this model is KerasHub's")


def test_shards_are_one_preset(copy):
    content = arrays(copy / "model.weights.h5")
    for number in range(2):
        with h5py.File(copy / f"model_0000{number}.weights.h5", "w") as file:
            for path_in_file in list(content)[number::2]:
                file[path_in_file] = content[path_in_file]
    (copy / "model.weights.json").write_text('{"weight_map": {}}')
    expected = open_checkpoint(FIXTURES / "masked_lm").tensors
    (copy / "model.weights.h5").unlink()
    found = open_checkpoint(copy).tensors
    for name, tensor in expected.items():
        np.testing.assert_array_equal(found[name].read(), tensor.read())
    (copy / "model_00001.weights.h5").unlink()
    assert "is missing" in refusal(copy)


def test_bfloat16_is_read_as_keras_writes_it(copy):
    change(
        copy / "config.json", dtype={"class_name": "DTypePolicy", "config": {"name": "bfloat16"}}
    )
    with h5py.File(copy / "model.weights.h5", "a") as file:
        half = file[QUERY][()].astype(ml_dtypes.bfloat16)
        del file[QUERY]
        file.create_dataset(QUERY, data=half).attrs["dtype"] = "bfloat16"
    checkpoint = open_checkpoint(copy)
    kernel = checkpoint.tensors["encoder/layer_0/attention/query/kernel"].read()
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(kernel, half.astype("float32").reshape(8, 8))
    assert checkpoint.notes[0].startswith("KerasHub computes this preset in bfloat16")


def test_older_paths_are_read_and_training_state_is_not(copy):
    expected = open_checkpoint(FIXTURES / "masked_lm").tensors
    with h5py.File(copy / "model.weights.h5", "a") as file:
        attention = file["layers/transformer_encoder/_self_attention_layer"]
        for name in ("query", "key", "value", "output"):
            attention.move(f"{name}_dense", f"_{name}_dense")
        file.move("layers", "_layer_checkpoint_dependencies")
        file["_layer_checkpoint_dependencies/dropout/seed_generator/vars/0"] = np.zeros(2, "uint32")
    with h5py.File(copy / "task.weights.h5", "a") as file:
        file["optimizer/vars/2"] = np.zeros((8, 8), "float32")
    checkpoint = open_checkpoint(copy)
    for name, tensor in expected.items():
        np.testing.assert_array_equal(checkpoint.tensors[name].read(), tensor.read())
    assert "the optimizer's averages in task.weights.h5 are not read" in checkpoint.notes


# There and back


@pytest.mark.parametrize("name", ["masked_lm", "classifier"])
def test_keras_hub_to_native_to_keras_hub_keeps_the_arrays(name, tmp_path):
    write_checkpoint(open_checkpoint(FIXTURES / name), tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "back", format="keras-hub")
    for file in ("model.weights.h5", "task.weights.h5"):
        original, back = arrays(FIXTURES / name / file), arrays(tmp_path / "back" / file)
        assert original.keys() == back.keys()
        for path_in_file, array in original.items():
            assert array.dtype == back[path_in_file].dtype
            np.testing.assert_array_equal(back[path_in_file], array)
    vocabulary = Path("assets/tokenizer/vocabulary.txt")
    original, back = FIXTURES / name / vocabulary, tmp_path / "back" / vocabulary
    assert back.read_text().split() == original.read_text().split()


@pytest.mark.parametrize("model", ["BertEncoder", "BertMaskedLM", "BertClassifier"])
@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu_tanh"},
        {"activation": "gelu", "layer_norm_epsilon": 1e-6, "attention_dropout_rate": 0.3},
    ],
)
def test_native_to_keras_hub_to_native_returns_the_same_files(checkpoint, tmp_path, model, changes):
    write_checkpoint(checkpoint(model, **changes), tmp_path / "ours", format="bert-keras")
    write_checkpoint(open_checkpoint(tmp_path / "ours"), tmp_path / "theirs", format="keras-hub")
    write_checkpoint(open_checkpoint(tmp_path / "theirs"), tmp_path / "back", format="bert-keras")
    for name in NATIVE_FILES:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


def test_a_file_size_limit_is_reported_with_the_path(checkpoint, file_size_limit, tmp_path):
    original = checkpoint("BertClassifier")
    with file_size_limit(4096), pytest.raises(OSError, match="File too large") as error:
        write_checkpoint(original, tmp_path / "new", format="keras-hub")
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


def test_the_same_model_is_written_in_the_same_bytes(checkpoint, tmp_path):
    for name in ("one", "two"):
        write_checkpoint(checkpoint("BertClassifier"), tmp_path / name, format="keras-hub")
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*")]
    assert len(files) == 8
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_differences_of_keras_hub_are_noted(checkpoint, tmp_path):
    changes = {"layer_norm_epsilon": 1e-6, "attention_dropout_rate": 0.3}
    original = checkpoint("BertMaskedLM", **changes)
    notes = write_checkpoint(original, tmp_path / "all", format="keras-hub")
    assert notes[0].startswith("KerasHub approximates GELU by tanh, this model computes it exactly")
    assert "epsilon is 1e-12, that of this model is 1e-06" in notes[1]
    assert "one dropout rate, 0.1, but the attention of this model has 0.3" in notes[2]
    assert "masked-LM head" in notes[3] and "tokenizer" in notes[4] and len(notes) == 5
    original = dataclasses.replace(
        checkpoint("BertEncoder", activation="gelu_tanh"), vocabulary=None
    )
    assert write_checkpoint(original, tmp_path / "none", format="keras-hub") == ()
    assert not (tmp_path / "none" / "tokenizer.json").exists()


# Mistakes


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("BertPretrainer", {}, "cannot store next_sentence/dense/kernel of a BertPretrainer; cho"),
        (
            "BertQuestionAnswering",
            {},
            "bert-keras convert SRC DST --to keras-hub --model BertEncoder",
        ),
        ("BertTokenClassifier", {}, "cannot store token_labels/dense/kernel of a BertTokenClass"),
        ("BertMultipleChoice", {}, "cannot store multiple_choice/dense/kernel of a BertMultipleCh"),
        ("BertMaskedLM", {"has_pooler": False}, 'has_pooler=True, new=("pooler",)), or choose'),
        ("BertEncoder", {"activation": "relu"}, "has no activation relu, only GELU"),
        (
            "BertEncoder",
            {"layer_norm_epsilon": 1e-3},
            "the outputs of a model with 0.001 would differ",
        ),
    ],
)
def test_models_that_keras_hub_cannot_store_are_refused(
    checkpoint, tmp_path, model, changes, message
):
    with pytest.raises(InputError) as error:
        write_checkpoint(checkpoint(model, **changes), tmp_path / "new", format="keras-hub")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_layers": 3},
            "transformer_encoder_2/_self_attention_layer/query_dense/vars/0 is miss",
        ),
        ({"num_layers": 1}, "layers/transformer_encoder_1/_feedforward_layer_norm/vars/0 is unexp"),
        (
            {"num_heads": 4},
            f"{QUERY} has the shape (8, 2, 4), expected (8, 4, 2)",
        ),
        (
            {"intermediate_dim": 16},
            "_feedforward_intermediate_dense/vars/1 has the shape (12,), expected (16,)",
        ),
        ({"vocabulary_size": 17}, "masked_lm_head/vars/0 has the shape (16,), expected (17,)"),
        ({"hidden_dim": "8"}, "hidden_size is '8'; expected int"),
        ({"max_sequence_length": None}, "max_positions is None; expected int"),
        ({"rotary": True}, "config.json has rotary, which KerasHub's BertBackbone does not know"),
        ({"dtype": {"class_name": "DTypePolicyMap", "config": {}}}, "describes a quantized model"),
        ({"dtype": "int8_from_float32"}, "describes a quantized model; save the preset without"),
    ],
)
def test_a_config_that_does_not_fit_the_weights_is_refused(copy, changes, message):
    change(copy / "config.json", **changes)
    assert message in refusal(copy)


def test_an_unknown_key_can_be_ignored(copy):
    change(copy / "config.json", rotary=True)
    assert open_checkpoint(copy, ignore=["rotary"]).metadata.model == "BertMaskedLM"


def test_an_unknown_array_can_be_ignored(copy):
    with h5py.File(copy / "task.weights.h5", "a") as file:
        file["layers/dense_1/vars/0"] = np.zeros((8, 2), "float32")
    name = "task.weights.h5/layers/dense_1/vars/0"
    assert f"{name} is unexpected" in refusal(copy)
    assert open_checkpoint(copy, ignore=[name]).unused == (name,)


def test_other_backbones_are_refused(copy):
    values = json.loads((copy / "config.json").read_text()) | {"class_name": "GemmaBackbone"}
    (copy / "config.json").write_text(json.dumps(values))
    assert "describes a GemmaBackbone; expected KerasHub's BertBackbone or Dis" in refusal(copy)
    (copy / "config.json").write_text(json.dumps(values | {"class_name": []}))
    assert "describes a []; expected KerasHub's BertBackbone or Dis" in refusal(copy)


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5", "task.json"])
def test_a_missing_file_is_refused(copy, name):
    (copy / name).unlink()
    assert f"{copy / name} does not exist; expected a file" in refusal(copy)


@pytest.mark.parametrize("name", ["model.weights.h5", "task.weights.h5"])
@pytest.mark.parametrize("fraction", [0, 0.001, 0.5, 0.99])
def test_a_truncated_file_is_refused(copy, name, fraction):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: int(fraction * len(content))])
    assert f"{copy / name} is damaged (" in refusal(copy)


@pytest.mark.parametrize("name", ["config.json", "task.json", "tokenizer.json", "metadata.json"])
def test_invalid_json_is_refused(copy, name):
    (copy / name).write_text('{"registered_name"')
    assert f"{copy / name} is not valid JSON" in refusal(copy)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "task.json",
            {"num_classes": 2},
            "layers/dense/vars/0 has the shape (8, 3), expected (8, 2)",
        ),
        ("task.json", {"num_classes": "2"}, "num_classes is '2'; expected an integer from 1 to"),
        ("task.json", {"num_classes": 10**12}, "num_classes is 1000000000000; expected an integer"),
        ("tokenizer.json", {"split": False}, "tokenizer.json: split is False; expected True"),
        ("tokenizer.json", {"suffix_indicator": "@@"}, "suffix_indicator is '@@'; expected '##'"),
    ],
)
def test_unsupported_settings_are_refused(classifier, name, changes, message):
    change(classifier / name, **changes)
    assert message in refusal(classifier)


@pytest.mark.parametrize(
    "ours",
    [3, {"labels": 3}, {"labels": [3]}, {"max_length": "9"}, {"lowercase": 1}, {"colour": "blue"}],
)
def test_an_invalid_bert_keras_key_is_refused(copy, ours):
    (copy / "metadata.json").write_text(json.dumps({"bert_keras": ours}))
    assert "bert-keras did not write this bert_keras; remove that key" in refusal(copy)


def test_links_to_other_files_are_not_followed(copy):
    outside = h5py.ExternalLink(str(FIXTURES / "masked_lm" / "model.weights.h5"), QUERY)
    with h5py.File(copy / "model.weights.h5", "a") as file:
        del file[QUERY]
        file[QUERY] = outside
    assert f"{QUERY} is missing" in refusal(copy)
    with h5py.File(copy / "model.weights.h5", "a") as file:
        del file[QUERY]
        elsewhere = [(str(copy / "raw"), 0, 256)]
        file.create_dataset(QUERY, (8, 2, 4), "float32", external=elsewhere)
    assert f"/{QUERY} is not an array of numbers stored in this file" in refusal(copy)


def test_a_vocabulary_shorter_than_the_table_can_be_padded(copy):
    vocabulary = copy / "assets/tokenizer/vocabulary.txt"
    vocabulary.write_text("\n".join(vocabulary.read_text().split()[:-1]) + "\n")
    assert "or append 1 unused tokens" in refusal(copy)
    assert len(open_checkpoint(copy, pad_vocabulary=True).vocabulary) == 16
