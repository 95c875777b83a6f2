"""Models of keras_hub and of this package, converted live, compute the same numbers."""

import dataclasses

import keras
import keras_hub
import numpy as np
import pytest

from bert_keras import BertPretrainer, from_keras_hub, preset, to_keras_hub
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.keras_hub.families import CLASSES, HUB_FAMILIES
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.models import MODELS
from bert_keras.text.encode import encode
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = ("good", "bad", "film", "is", "it", "the", "license", "this", "of", "##s", "##ing")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, *"abcdefghijklmnopqrstuvwxyz.,!"))
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 32, "intermediate_dim": 48}
TEXTS = ["a good film.", "The Licensing of this work is bad, a film", "", "It is a film, 1,000!"]


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


PAIRS = [
    ("bert", "BertMaskedLM"),
    ("albert", "BertEncoder"),
    *(slow(family, model) for family in HUB_FAMILIES for model in CLASSES
      if (family, model) not in (("bert", "BertMaskedLM"), ("albert", "BertEncoder"))),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizers(subwords):
    """A tokenizer of keras_hub for each family."""
    models, lowercase = keras_hub.models, {"lowercase": True, "strip_accents": True}
    roberta = {name: str(subwords["roberta"] / name) for name in ("vocab.json", "merges.txt")}
    return {
        "bert": models.BertTokenizer(list(VOCABULARY.tokens), **lowercase),
        "distilbert": models.DistilBertTokenizer(list(VOCABULARY.tokens), **lowercase),
        "roberta": models.RobertaTokenizer(*roberta.values()),
        "albert": models.AlbertTokenizer(str(subwords["albert"] / "spiece.model")),
    }


def hub_model(family: str, model: str, tokenizer):
    """A model of keras_hub with random weights, biases included, and its preprocessor."""
    hub, classes = HUB_FAMILIES[family], keras_hub.models
    sizes = SIZES | {"vocabulary_size": tokenizer.vocabulary_size(), "max_sequence_length": 24}
    embedding = {"embedding_dim": 16} if family == "albert" else {}
    made = getattr(classes, hub.class_name("BertEncoder"))(**sizes, **embedding)
    if model != "BertEncoder":
        name = hub.class_name(model)
        preprocessor = getattr(classes, f"{name}Preprocessor")(tokenizer, sequence_length=12)
        labels = {"num_classes": 3} if model == "BertClassifier" else {}
        made = getattr(classes, name)(made, preprocessor=preprocessor, **labels)
    random = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + random.normal(size=weight.shape, scale=0.1))
    return made


def outputs(model, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The main output of a model of either package for inputs of this package."""
    positions = np.tile([1, 2], (len(inputs["input_ids"]), 1))
    if isinstance(model, tuple(MODELS.values())):
        result = model({**inputs, "masked_lm_positions": positions})
    else:
        names = {"token_ids": "input_ids", "padding_mask": "input_mask"}
        result = model(
            {n: inputs[names.get(n, n)] for n in model.input if n != "mask_positions"}
            | ({"mask_positions": positions} if "mask_positions" in model.input else {})
        )
    if isinstance(result, dict):
        result = result.get("masked_lm", result.get("sequence_output"))
    return keras.ops.convert_to_numpy(result)


def batch(vocab_size: int) -> dict[str, np.ndarray]:
    mask = (np.arange(12) < [[12], [5], [3]]).astype("int32")
    ids = np.random.default_rng(1).integers(5, vocab_size, mask.shape, dtype="int32") * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


@pytest.mark.parametrize(("family", "model"), PAIRS)
def test_both_directions_compute_the_same(tokenizers, family, model, tmp_path):
    theirs = hub_model(family, model, tokenizers[family])
    ours = from_keras_hub(theirs, preprocessor=tokenizers[family])
    assert (type(ours).__name__, family_of(ours.config).kind) == (model, family)
    inputs = batch(ours.config.vocab_size)
    expected = outputs(theirs, inputs)
    np.testing.assert_allclose(outputs(ours, inputs), expected, rtol=1e-6, atol=1e-6)
    for text in TEXTS:
        assert ours.tokenizer.encode(text).ids == list(tokenizers[family](text)), text
    back = to_keras_hub(ours)
    assert type(back) is type(theirs)
    np.testing.assert_allclose(outputs(back, inputs), expected, rtol=1e-6, atol=1e-6)
    if model == "BertClassifier":
        assert ours.metadata.max_length == 12
        encoded = encode(ours.tokenizer, TEXTS, max_length=12)
        for made in (theirs, back):
            np.testing.assert_allclose(made.predict(TEXTS), ours(encoded), rtol=1e-6, atol=1e-6)
    ours.save_pretrained(tmp_path / "model")
    assert open_checkpoint(tmp_path / "model").metadata == ours.metadata


@pytest.mark.parametrize("activation", ["gelu", slow("gelu_tanh")])
@pytest.mark.parametrize("family", ["bert", *map(slow, ("distilbert", "albert", "roberta"))])
def test_our_gelu_and_epsilon_reach_keras_hub(tokenizers, family, activation, capsys):
    model = "BertMaskedLM"
    config = from_keras_hub(hub_model(family, model, tokenizers[family])).config
    changes = {"activation": activation, "masked_lm_activation": "", "masked_lm_epsilon": 0.0}
    if family != "distilbert":  # its epsilon is one of the values that define it
        changes["layer_norm_epsilon"] = 1e-6
    config = dataclasses.replace(config, **changes)
    ours, inputs = MODELS[model](config), batch(config.vocab_size)
    if not ours.built:
        ours.build()
    random = np.random.default_rng(0)
    for weight in ours.weights:
        weight.assign(weight + random.normal(size=weight.shape, scale=0.1))
    np.testing.assert_allclose(
        outputs(to_keras_hub(ours), inputs), outputs(ours, inputs), rtol=1e-6, atol=1e-6
    )
    assert "after keras_hub saves and loads the model: KerasHub" in capsys.readouterr().out


def test_classes_without_counterpart_are_refused():
    for model in (keras.Sequential(), "bert_base_en"):
        with pytest.raises(InputError, match="has no counterpart in bert_keras; expected a model"):
            from_keras_hub(model)
    pretrainer = BertPretrainer(preset("tiny", vocab_size=9, num_layers=1))
    with pytest.raises(InputError, match="BertPretrainer has no counterpart in keras_hub; expect"):
        to_keras_hub(pretrainer)
    assert to_keras_hub(pretrainer.encoder).num_layers == 1
    backbone = HUB_FAMILIES["albert"].class_name("BertEncoder")
    sizes = SIZES | {"vocabulary_size": 9, "embedding_dim": 4, "num_groups": 2}
    with pytest.raises(
        InputError, match=r"^keras_hub's AlbertBackbone/config\.json: num_groups is 2"
    ):
        from_keras_hub(getattr(keras_hub.models, backbone)(**sizes))
