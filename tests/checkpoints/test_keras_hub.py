"""Models of keras_hub, in memory and as presets, compute the same numbers in this package."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import encode, from_keras_hub, load_model
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.keras_hub import HUB_FAMILIES
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import MODELS
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.checkpoints.conftest import change_json
from tests.tensorflow_or_skip import keras_hub

WORDS = ("good", "bad", "film", "is", "it", "the", "license", "this", "of", "##s", "##ing")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, *"abcdefghijklmnopqrstuvwxyz.,!"))
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 32, "intermediate_dim": 48}
TEXTS = ["a good film.", "The Licensing of this work is bad, a film", "", "It is a film, 1,000!"]
SLOW = ("distilbert", "BertClassifier"), ("roberta", "BertMaskedLM"), ("roberta", "BertClassifier")
SLOW += (("albert", "BertMaskedLM"), ("albert", "BertClassifier"))
PAIRS = [("bert", "BertMaskedLM"), ("bert", "BertClassifier"), ("albert", "BertEncoder")]
PAIRS += [pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW]


@pytest.fixture(scope="module")
def tokenizers(subwords):
    """A tokenizer of keras_hub for each family."""
    models, lowercase = keras_hub.models, {"lowercase": True, "strip_accents": True}
    roberta = [str(subwords["roberta"] / name) for name in ("vocab.json", "merges.txt")]
    return {
        "bert": models.BertTokenizer(list(VOCABULARY.tokens), **lowercase),
        "distilbert": models.DistilBertTokenizer(list(VOCABULARY.tokens), **lowercase),
        "roberta": models.RobertaTokenizer(*roberta),
        "albert": models.AlbertTokenizer(str(subwords["albert"] / "spiece.model")),
    }


def hub_model(family: str, model: str, tokenizer, *, positions: int = 24):
    """A model of keras_hub with random weights, biases included, and its preprocessor."""
    prefix, classes = HUB_FAMILIES[family].class_prefix, keras_hub.models
    sizes = {"max_sequence_length": positions, "vocabulary_size": tokenizer.vocabulary_size()}
    embedding = {"embedding_dim": 16} if family == "albert" else {}
    made = getattr(classes, f"{prefix}Backbone")(**SIZES, **sizes, **embedding)
    if model != "BertEncoder":
        name = f"{prefix}{KINDS[model].keras_hub_class}"
        preprocessor = getattr(classes, f"{name}Preprocessor")(tokenizer, sequence_length=12)
        labels = {"num_classes": 3} if model == "BertClassifier" else {}
        made = getattr(classes, name)(made, preprocessor=preprocessor, **labels)
    if not made.built:
        made.build()
    # No seed of Keras: with TensorFlow 2.19, it ends the SentencePiece models of the tokenizers.
    random = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + random.normal(size=weight.shape, scale=0.1))
    return made


def batch(vocab_size: int, *, num_segments: int = 1) -> dict[str, np.ndarray]:
    random, mask = np.random.default_rng(1), (np.arange(12) < [[12], [5], [3]]).astype("int32")
    ids = random.integers(5, vocab_size, mask.shape, dtype="int32") * mask
    segments = random.integers(0, num_segments, mask.shape, dtype="int32")
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def outputs(model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The main output of a model of either package for inputs of this package."""
    positions = np.tile([1, 2], (len(inputs["input_ids"]), 1))
    if isinstance(model, tuple(MODELS.values())):
        result = model({**inputs, "masked_lm_positions": positions})
    else:
        ids, mask, segments = (inputs[n] for n in ("input_ids", "input_mask", "segment_ids"))
        theirs = {"token_ids": ids, "padding_mask": mask, "segment_ids": segments}
        theirs["mask_positions"] = positions
        result = model({name: theirs[name] for name in theirs if name in model.input})
    if isinstance(result, dict):
        result = result.get("masked_lm", result.get("sequence_output"))
    return keras.ops.convert_to_numpy(result)


def assert_close(actual, expected) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("family", "model"), PAIRS)
def test_models_and_presets(tokenizers, family, model, tmp_path):
    tokenizer = tokenizers[family]
    theirs = hub_model(family, model, tokenizer)
    ours = from_keras_hub(theirs, preprocessor=tokenizer if model == "BertEncoder" else None)
    assert (type(ours).__name__, family_of(ours.config).kind) == (model, family)
    inputs = batch(ours.config.vocab_size)
    expected = outputs(theirs, inputs)
    theirs.save_to_preset(str(tmp_path / "theirs"))
    tokenizer.save_to_preset(str(tmp_path / "theirs"))
    loaded = load_model(tmp_path / "theirs")
    for made in (ours, loaded):
        assert_close(outputs(made, inputs), expected)
        for text in TEXTS if family != "albert" else ():
            assert made.tokenizer.encode(text).ids == list(tokenizer(text)), text
    if model == "BertClassifier":
        assert ours.metadata.max_length == loaded.metadata.max_length == 12
        assert ours.metadata.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
        if family != "albert":
            assert_close(theirs.predict(TEXTS), ours(encode(ours.tokenizer, TEXTS, max_length=12)))


@pytest.mark.slow
@pytest.mark.parametrize("family", HUB_FAMILIES)
def test_keras_hub_reads_the_encoder_of_a_folder_of_hugging_face(tokenizers, family, tmp_path):
    theirs = hub_model(family, "BertMaskedLM", tokenizers[family], positions=512)
    ours = from_keras_hub(theirs)
    ours.save_pretrained(tmp_path / "ours", format="huggingface")
    backbone = getattr(keras_hub.models, f"{HUB_FAMILIES[family].class_prefix}Backbone")
    theirs, inputs = backbone.from_preset(str(tmp_path / "ours")), batch(ours.config.vocab_size)
    assert_close(outputs(theirs, inputs), outputs(ours.encoder, inputs))
    with pytest.raises(InputError):
        ours.save_pretrained(tmp_path / "new", format="keras-hub")


@pytest.fixture
def folder(tmp_path, tokenizers):
    """A preset of a classifier that keras_hub wrote."""
    hub_model("bert", "BertClassifier", tokenizers["bert"]).save_to_preset(str(tmp_path / "preset"))
    return tmp_path / "preset"


def change(path: Path, **changes) -> None:
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"config": values["config"] | changes}))


def test_a_preset_states_dtype_length_and_vocabulary(folder):
    change(folder / "task.json", activation="softmax")
    (note,) = open_checkpoint(folder).notes
    assert "softmax" in note
    change(folder / "config.json", dtype="bfloat16")
    weight = open_checkpoint(folder).tensors["encoder/pooler/bias"].read()
    assert weight.dtype == np.float32
    (folder / "task.json").unlink()
    metadata = open_checkpoint(folder).metadata
    assert (metadata.model, metadata.max_length) == ("BertEncoder", 24)
    (folder / "tokenizer.json").unlink()
    assert open_checkpoint(folder).vocabulary is None


@pytest.mark.slow
def test_models_without_counterpart():
    sizes = SIZES | {"vocabulary_size": 9, "embedding_dim": 4}
    from_keras_hub(keras_hub.models.AlbertBackbone(**sizes))
    groups = keras_hub.models.AlbertBackbone(**sizes, num_groups=2)
    quantized = keras_hub.models.BertBackbone(vocabulary_size=9, **SIZES)
    from_keras_hub(quantized)
    quantized.quantize("int8")
    for model in (keras.Sequential(), groups, quantized):
        with pytest.raises(InputError):
            from_keras_hub(model)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("config.json", {"class_name": "GemmaBackbone"}),
        ("task.json", {"class_name": "GemmaCausalLM"}),
        *(("tokenizer.json", {}), ("model.weights.h5", None), ("task.weights.h5", None)),
    ],
)
def test_other_contents_are_refused(folder, name, changes):
    if not name.startswith("task"):
        (folder / "task.json").unlink()
    if changes is None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-1000])
    else:
        change_json(folder / name, **changes)
    if name == "tokenizer.json":
        change(folder / name, suffix_indicator="@@")
    with pytest.raises(InputError):
        open_checkpoint(folder)
