"""Hugging Face's folders; transformers wrote the folders of fixtures/huggingface."""

import dataclasses
import json
import os
import shutil
from collections import defaultdict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from bert_keras import BertPretrainer
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import (
    CLASSES,
    read_config,
    read_values,
    transformers_classes,
)
from bert_keras.downstream.catalog import task_of
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES, family_of, preset
from bert_keras.kinds.classifier import Classifier
from bert_keras.models.loading import MODELS, load_model
from tests.checkpoints.conftest import assert_round_trip, change_json
from tests.factories import assert_same_tensors, random_checkpoint
from tests.relatives import CHANGES

FIXTURES = Path(__file__).parent / "fixtures" / "huggingface"
HEADS = {"encoder": "BertEncoder", "pretraining": "BertPretrainer", "masked_lm": "BertMaskedLM"}
HEADS |= {"classification": "BertClassifier", "token_labels": "BertTokenClassifier"}
HEADS |= {"question_answering": "BertQuestionAnswering", "multiple_choice": "BertMultipleChoice"}
KINDS = {"bert": {}, **{kind: CHANGES[kind] for kind in FAMILIES if kind in CHANGES}}
PAIRS = [
    (kind, model)
    for kind in KINDS
    for model in transformers_classes(FAMILIES[kind])
    if model != "BertPretrainer" or kind in ("bert", "albert")
]


@pytest.fixture
def copy(tmp_path):
    """Copies a fixture."""
    return lambda name: Path(shutil.copytree(FIXTURES / name, tmp_path / name))


def tensors(folder: Path) -> dict[str, np.ndarray]:
    return {n: a for path in folder.glob("*.safetensors") for n, a in load_file(path).items()}


def store(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    return folder


def small(kind: str, model: str, *, config: dict | None = None, vocabulary=None, **fields):
    """A random checkpoint of a family, with a pooler where transformers has one."""
    has_pooler = MODELS[model].kind.reads_pooled_output
    has_pooler |= model == "BertEncoder" and FAMILIES[kind].has_pooler
    changes = {"has_pooler": has_pooler, **KINDS[kind], **(config or {})}
    made = random_checkpoint(model, config=changes, vocabulary=vocabulary, **fields)
    return made if vocabulary else dataclasses.replace(made, vocabulary=None)


@pytest.mark.parametrize("name", HEADS)
def test_transformers_files_come_back(name, tmp_path):
    checkpoint = open_checkpoint(FIXTURES / name)
    assert checkpoint.metadata.model == HEADS[name]
    write_checkpoint(checkpoint, tmp_path / "back", format="huggingface")
    expected = {n: array.astype(np.float32) for n, array in tensors(FIXTURES / name).items()}
    assert_same_tensors(tensors(tmp_path / "back"), expected)
    assert open_checkpoint(tmp_path / "back").metadata == checkpoint.metadata
    config = json.loads((FIXTURES / name / "config.json").read_text())
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    for field in ("architectures", "id2label", "hidden_act", "layer_norm_eps", "model_type"):
        assert written.get(field) == config.get(field), field


@pytest.mark.parametrize(("kind", "model"), PAIRS)
def test_native_to_huggingface_to_native_returns_the_same_files(tmp_path, kind, model):
    original = small(kind, model)
    is_roberta = KINDS[kind] == KINDS["roberta"]  # without a vocabulary
    assert family_of(original.metadata.config) is FAMILIES["roberta" if is_roberta else kind]
    assert assert_round_trip(original, tmp_path, format="huggingface") == ()


OPTIONS = [{"ties_decoder": False}, {"has_biases": True}, {"local_window": 0}, {"pooling": "mean"}]


@pytest.mark.extra
@pytest.mark.parametrize(
    ("kind", "model", "changes"),
    [(*pair, {}) for pair in PAIRS if pair[0] != "neobert"]
    + [("modernbert", "BertMaskedLM", each) for each in OPTIONS],
)
def test_transformers_reads_our_files_and_we_read_its_files(tmp_path, kind, model, changes):
    pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    transformers.logging.disable_progress_bar()
    original = small(kind, model, config=changes)
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    family = family_of(original.metadata.config)
    name = transformers_classes(family)[model]
    auto = f"AutoModel{name.removeprefix(family.class_prefix).removeprefix('Model')}"
    load = getattr(transformers, auto).from_pretrained
    theirs, info = load(tmp_path / "it", output_loading_info=True)
    assert type(theirs).__name__ == name and not any(info.values()), info
    theirs.save_pretrained(tmp_path / "again")
    read = open_checkpoint(tmp_path / "again")
    assert (read.metadata, read.notes) == (original.metadata, ())
    assert_same_tensors(read.tensors, original.tensors)


def test_written_files_and_keys(tmp_path):
    write_checkpoint(random_checkpoint("BertClassifier"), tmp_path / "it", format="huggingface")
    files = {path.name for path in (tmp_path / "it").iterdir()}
    tokenizer_files = {"vocab.txt", "tokenizer.json", "tokenizer_config.json"}
    assert files == {"config.json", "model.safetensors", *tokenizer_files}
    config = json.loads((tmp_path / "it" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "perhaps"}
    assert config["label2id"] == {"no": 0, "yes": 1, "perhaps": 2}
    theirs = Tokenizer.from_file(str(tmp_path / "it" / "tokenizer.json"))
    text = f"The film. unsing, àé {'ab' * 70}"
    ids = open_checkpoint(tmp_path / "it").tokenizer.encode(text).ids
    assert theirs.encode(text).ids == [2, *ids, 3]
    assert theirs.encode("the", "bad").type_ids == [0, 0, 0, 1, 1]


def test_old_weight_names_are_read(copy, tmp_path):
    """Without `bert.`, from DataParallel, with gamma and beta, with buffers, with tied copies."""
    folder = copy("pretraining")
    arrays = tensors(folder)
    twice = arrays | {
        "bert.embeddings.position_ids": np.arange(10)[None],
        "bert.embeddings.token_type_ids": np.zeros((1, 10), np.int64),
        "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": arrays["cls.predictions.bias"],
    }
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    parallel = {"bert.": "module.bert.", "cls.": "module.cls."}
    moved = {"cls.predictions.bias": "cls.predictions.decoder.bias"}
    expected = open_checkpoint(FIXTURES / "pretraining")
    of_arrays = [(arrays, names) for names in ({"bert.": ""}, old, parallel)]
    for source, names in (*of_arrays, (twice, {}), (twice, moved)):
        stored = {}
        for name, array in source.items():
            for one, other in names.items():
                name = name.replace(one, other)
            stored[name] = array
        read = open_checkpoint(store(folder, stored))
        assert (read.metadata, read.unused) == (expected.metadata, ())
        assert_same_tensors(read.tensors, expected.tensors)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_float_types_are_converted(copy, dtype):
    folder, name = copy("encoder"), "encoder.layer.1.output.dense.weight"
    arrays = {name: array.astype(dtype) for name, array in tensors(folder).items()}
    read = open_checkpoint(store(folder, arrays)).tensors
    kernel = read["encoder/layer_1/feed_forward/output/kernel"].read()
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(kernel, arrays[name].astype(np.float32).T)


def test_the_weights_decide_the_model_class(copy):
    folder = copy("pretraining")
    change_json(folder / "config.json", architectures=["BertForMaskedLM"])  # as bert-base-uncased
    assert open_checkpoint(folder).metadata.model == "BertPretrainer"
    ignore = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
    read = open_checkpoint(folder, ignore=ignore)
    assert (read.metadata.model, set(read.unused)) == ("BertMaskedLM", set(ignore))
    assert read.metadata.config.has_pooler
    # A folder of BertForNextSentencePrediction keeps its head, for a BertPretrainer.
    rest = {n: a for n, a in tensors(folder).items() if not n.startswith("cls.predictions.")}
    change_json(folder / "config.json", architectures=["BertForNextSentencePrediction"])
    assert open_checkpoint(store(folder, rest)).metadata.model == "BertEncoder"
    model = BertPretrainer.from_pretrained(folder, new=("masked_lm",))
    kernel = rest["cls.seq_relationship.weight"].T
    np.testing.assert_array_equal(model.next_sentence.dense.kernel, kernel)


def test_labels_and_problem_type(copy, tmp_path):
    folder, shuffled = copy("classification"), {"2": "c", "0": "a", "1": "b"}
    change_json(folder / "config.json", id2label=shuffled, problem_type="regression")
    read = open_checkpoint(folder)
    assert (read.metadata.labels, read.metadata.problem_type) == (("a", "b", "c"), "regression")
    assert_round_trip(read, tmp_path, format="huggingface")
    change_json(folder / "config.json", id2label=None, num_labels=3)
    assert open_checkpoint(folder).metadata.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    names = {"0": "a", "1": "b"}
    for labels in (names, {**names, "3": "c"}):
        change_json(folder / "config.json", id2label=labels)
        with pytest.raises(InputError):
            open_checkpoint(folder)
    change_json(folder / "config.json", id2label=shuffled, architectures=None)
    with pytest.raises(InputError):  # three kinds of heads have these weights
        open_checkpoint(folder)


def test_the_head_that_only_the_published_neobert_has(tmp_path):
    original, head = small("neobert", "BertEncoder"), {"decoder.bias": np.ones(18, "f")}
    write_checkpoint(original, tmp_path, format="huggingface")
    arrays = {f"model.{name}": array for name, array in tensors(tmp_path).items()}
    change_json(tmp_path / "config.json", architectures=["NeoBERTLMHead"], hidden_act=None)
    read = open_checkpoint(store(tmp_path, arrays | head))
    assert (read.metadata.config, read.unused) == (original.metadata.config, ("decoder.bias",))
    assert_same_tensors(read.tensors, original.tensors)


SIGMOID, SETTINGS = {"activation_fn": CLASSES[1]}, "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("file", "values", "score"),
    [
        ("config.json", {"id2label": ["similarity"]}, 2.0),
        ("config.json", {"sentence_transformers": SIGMOID}, 0.8807971),
        ("config.json", {"sbert_ce_default_activation_function": CLASSES[1]}, 0.8807971),
        *((SETTINGS, each, 0.8807971) for each in (SIGMOID, {"model_type": "CrossEncoder"})),
    ],
)
def test_scores_of_cross_encoders(tmp_path, file, values, score):
    original = small("bert", "BertClassifier", labels=("LABEL_0",), problem_type="")
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    change_json(tmp_path / "it" / "config.json", sentence_transformers=None, id2label=None)
    change_json(tmp_path / "it" / file, **values)
    read = open_checkpoint(tmp_path / "it")
    write_checkpoint(read, tmp_path / "back", format="huggingface")
    for metadata in (read.metadata, open_checkpoint(tmp_path / "back").metadata):
        (answer,) = Classifier(metadata, None).answers((), None, [np.float32([2.0])])
        task = task_of(metadata, name="regression", source="it")
        (predicted,) = task.predictions((), None, [np.float32([2.0])])
        assert [answer["score"], predicted.label] == pytest.approx(2 * [score], abs=1e-6)


DROPOUT = {"albert": "classifier_dropout_prob", "distilbert": "seq_classif_dropout"}


@pytest.mark.parametrize("kind", ["albert", "distilbert", "bert", "electra", "modernbert"])
def test_the_dropout_of_heads(tmp_path, kind):
    write_checkpoint(small(kind, "BertClassifier"), tmp_path / "it", format="huggingface")
    change = {DROPOUT.get(kind, "classifier_dropout"): 0.3}
    change_json(tmp_path / "it" / "config.json", **change)
    model = load_model(tmp_path / "it")
    model.save_pretrained(tmp_path / "back", format="huggingface")
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert model.dropout_rate == 0.3 and written.items() >= change.items()


@pytest.mark.parametrize("value", [np.nan, -np.inf, 3e38])
def test_weights_that_are_not_numbers_are_refused(copy, value):
    folder = copy("classification")
    arrays = tensors(folder)
    arrays["classifier.weight"][1, 2] = value
    with pytest.raises(InputError, match="classification/dense/kernel"):
        load_model(store(folder, arrays))


def test_activations(copy, tmp_path):
    folder = copy("encoder")
    for theirs, ours in (
        *(("gelu_new", "gelu_new"), ("gelu_pytorch_tanh", "gelu_tanh"), ("gelu_fast", "gelu_tanh")),
        *(("silu", "silu"), ("swish", "silu"), ("tanh", "tanh"), ("gelu_python", "gelu")),
    ):
        change_json(folder / "config.json", hidden_act=theirs)
        read = open_checkpoint(folder)
        assert read.metadata.config.activation == ours
        write_checkpoint(read, tmp_path / theirs, format="huggingface")
        assert open_checkpoint(tmp_path / theirs).metadata == read.metadata


def test_shards_and_precedence(copy):
    folder = copy("pretraining")
    assert len([*folder.glob("*.safetensors")]) > 1
    sharded, arrays = open_checkpoint(FIXTURES / "pretraining"), tensors(folder)
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    assert_same_tensors(open_checkpoint(store(folder, arrays)).tensors, sharded.tensors)


ELECTRA = {"model_type": "electra"}
# The file of answerdotai/ModernBERT-base, without the keys that have no effect here.
MODERNBERT = {
    **{"model_type": "modernbert", "hidden_size": 768, "intermediate_size": 1152},
    **{"num_attention_heads": 12, "num_hidden_layers": 22, "vocab_size": 50368},
    **{"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "norm_eps": 1e-05},
    **{"local_attention": 128, "local_rope_theta": 10000.0, "max_position_embeddings": 8192},
}
TYPES = ["full_attention", *["sliding_attention"] * 3]


# Values of nomic-ai/nomic-embed-text-v1.5, Alibaba-NLP/gte-multilingual-base, chandar-lab/NeoBERT
NOMIC = {
    **{"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "n_positions": 2048},
    **{"n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": 3072, "vocab_size": 30528},
    **{"activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "type_vocab_size": 2},
    **{"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "rotary_emb_base": 1000},
    **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False},
    **{"qkv_proj_bias": False, "rotary_scaling_factor": None, "auto_map": {"AutoModel": "a.B"}},
}
GTE = {
    **{"model_type": "new", "architectures": ["NewForTokenClassification"], "hidden_size": 768},
    **{"num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072},
    **{"hidden_act": "gelu", "layer_norm_type": "layer_norm", "layer_norm_eps": 1e-12},
    **{"max_position_embeddings": 8192, "position_embedding_type": "rope", "rope_theta": 20000},
    **{"rope_scaling": {"type": "ntk", "factor": 8.0}, "type_vocab_size": 1, "pack_qkv": True},
    **{"vocab_size": 250048, "auto_map": {"AutoModel": "a.B"}},
}
NEOBERT = {
    **{"model_type": "neobert", "architectures": ["NeoBERTLMHead"], "hidden_size": 768},
    **{"num_attention_heads": 12, "num_hidden_layers": 28, "intermediate_size": 3072},
    **{"norm_eps": 1e-5, "vocab_size": 30522, "max_length": 4096, "auto_map": {"AutoModel": "a.B"}},
}
# Changes of the names of weights in transformers -> the names in published files
PUBLISHED_NAMES = {
    "nomic_bert": {
        **{"nomic_bert.": "bert.", "layers.": "encoder.layers.", "embeddings.LayerNorm": "emb_ln"},
        **{"self_attn.o_proj": "attn.out_proj", "post_attention_layernorm": "norm1"},
        **{"post_mlp_layernorm": "norm2", "up_proj": "fc11", "gate_proj": "fc12"},
        "down_proj": "fc2",
    },
    "gte": {
        **{"gte.": "new.", "layers.": "encoder.layer.", "self_attn.": "attention."},
        **{"post_attention_layernorm": "attn_ln", "post_mlp_layernorm": "mlp_ln"},
        "lm_head.layer_norm": "lm_head.norm",
    },
}
PACKED = {
    "nomic_bert": {"attn.Wqkv": [f"self_attn.{each}_proj" for each in "qkv"]},
    "gte": {
        "attention.qkv_proj": [f"attention.{each}_proj" for each in "qkv"],
        "mlp.up_gate_proj": ["mlp.up_proj", "mlp.gate_proj"],
    },
}


def rope(base: float, **values) -> dict:
    return {"rope_type": "default", "rope_theta": base, **values}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, preset("base")),
        ({"model_type": "distilbert"}, preset("distilbert", has_pooler=True)),
        ({"model_type": "albert", "hidden_size": 768, "intermediate_size": 3072,
          "num_attention_heads": 12}, preset("albert-base", activation="gelu_new")),
        ({"model_type": "roberta", "type_vocab_size": 1, "max_position_embeddings": 514,
          "layer_norm_eps": 1e-5}, preset("roberta-base")),
        (ELECTRA, preset("electra-small", has_pooler=True)),
        (ELECTRA | {"embedding_size": 768, "hidden_size": 768, "intermediate_size": 3072,
                    "num_attention_heads": 12}, preset("electra-base", has_pooler=True)),
        *((MODERNBERT | values, preset("modernbert-base", has_pooler=True, **changes))
          for values, changes in (
            ({}, {}),
            ({"local_rope_theta": None}, {"local_rotary_base": 0.0}),
            ({"rope_parameters": {"full_attention": rope(500.0), "sliding_attention": rope(20.0)},
              "local_rope_theta": 7.0}, {"rotary_base": 500.0, "local_rotary_base": 20.0}),
            ({"global_attn_every_n_layers": 1}, {"local_window": 0}),
            ({"layer_types": [*TYPES * 5, *TYPES[:2]]}, {"global_every": 4}),
            ({"local_attention": 65}, {"local_window": 64}),
            ({"classifier_pooling": "mean"}, {"pooling": "mean"}),
            ({"tie_word_embeddings": False}, {"ties_decoder": False}),
            ({"norm_bias": True}, {"has_biases": True}))),
        (NOMIC, preset("nomic-bert-base", has_pooler=True)),
        (GTE, preset("gte-multilingual-base", has_pooler=True)),
        (GTE | {"type_vocab_size": 0, "rope_theta": 500000, "vocab_size": 30528,
                "rope_scaling": {"type": "ntk", "factor": 2.0}},
         preset("gte-base", has_pooler=True)),
        (NEOBERT, preset("neobert", has_pooler=True)),
    ],
)  # fmt: skip
def test_values_of_published_files(tmp_path, values, expected):
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert read_config(*read_values(tmp_path)) == expected


@pytest.mark.parametrize(
    ("kind", "model"),
    [("nomic_bert", model) for model in ("BertEncoder", "BertMaskedLM", "BertClassifier")]
    + [("gte", model) for model in ("BertEncoder", "BertMaskedLM", "BertTokenClassifier")],
)
def test_published_layouts(tmp_path, kind, model):
    """The same weights with other names, packed, and the keys of the published config.json."""
    original = small(kind, model)
    write_checkpoint(original, tmp_path, format="huggingface")
    stored, packed = {}, defaultdict(list)
    for name, array in tensors(tmp_path).items():
        for one, other in PUBLISHED_NAMES[kind].items():
            name = name.replace(one, other)
        stored[name] = array
    for whole, parts in PACKED[kind].items():
        for name in [name for part in parts for name in stored if part in name]:
            (part,) = (part for part in parts if part in name)
            packed[name.replace(part, whole)].append(stored.pop(name))
    store(tmp_path, stored | {name: np.concatenate(parts) for name, parts in packed.items()})
    values = json.loads((tmp_path / "config.json").read_text())
    if kind == "nomic_bert":
        sizes = {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_inner": 32, "n_positions": 64}
        values = NOMIC | sizes | {key: values[key] for key in ("architectures", "vocab_size")}
        values |= {"resid_pdrop": 0.1, "attn_pdrop": 0.1, "rotary_emb_base": 10000}
    else:
        values |= {"model_type": "new", "position_embedding_type": "rope", "auto_map": {"a": "b"}}
    (tmp_path / "config.json").write_text(json.dumps(values))
    read = open_checkpoint(tmp_path)
    assert (read.metadata.model, read.metadata.config) == (model, original.metadata.config)
    assert_same_tensors(read.tensors, original.tensors)


@pytest.mark.parametrize(
    "values",
    [
        *({"hidden_act": "mish"}, {"position_embedding_type": "relative_key"}),
        *({"is_decoder": True}, {"num_attention_heads": 5}, {"hidden_size": "8"}),
        {"model_type": "roberta", "pad_token_id": 0},
        ELECTRA | {"summary_type": "mean"},
        MODERNBERT | {"classifier_activation": "silu"},
        MODERNBERT | {"classifier_pooling": "max"},
        MODERNBERT | {"rope_scaling": {"type": "linear", "factor": 2.0}},
        MODERNBERT | {"layer_types": [*TYPES[2:], *TYPES * 5]},
        *(NOMIC | each for each in ({"rotary_scaling_factor": 2.0}, {"prenorm": True})),
        GTE | {"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}},
        *(GTE | {"logn_attention_scale": True}, NEOBERT | {"rms_norm": False}),
    ],
)
def test_values_that_would_change_the_computation_are_refused(tmp_path, values):
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(InputError):
        read_config(*read_values(tmp_path))


@pytest.mark.parametrize(
    "values",
    [
        *({"model_type": "xlnet"}, {"architectures": ["BertForDialogue"]}),
        {"auto_map": {"AutoModel": "their.Code"}},
        {"sentence_transformers": {"activation_fn": CLASSES[1]}},
    ],
)
def test_other_models_are_refused(copy, values):
    folder = copy("classification")
    change_json(folder / "config.json", **values)
    with pytest.raises(InputError):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "weight", "array"),
    [
        ("encoder", "pooler.dense.bias", None),
        ("encoder", "head.weight", np.ones(3, "f")),
        ("encoder", "pooler.dense.bias", np.ones(9, "f")),
        ("encoder", "pooler.dense.bias", np.ones(8, np.int8)),
        ("masked_lm", "cls.predictions.decoder.weight", np.ones((16, 8), "f")),
        ("classification", "bert.pooler.dense.weight", None),
    ],
)
def test_weights_that_are_not_of_the_model_are_refused(copy, name, weight, array):
    folder = copy(name)
    arrays = {n: a for n, a in {**tensors(folder), weight: array}.items() if a is not None}
    with pytest.raises(InputError):
        load_model(store(folder, arrays))


def test_damaged_folders_are_refused(copy):
    folder = copy("encoder")
    weights = folder / "model.safetensors"
    weights.write_text("version https://git-lfs.github.com")
    with pytest.raises(InputError):
        open_checkpoint(folder)
    weights.unlink()
    with pytest.raises(InputError):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("kind", "model", "config"),
    [
        ("bert", "BertMaskedLM", {"shares_layers": True}),
        ("bert", "BertDiscriminator", {}),
        ("bert", "BertFeatureTagger", {}),
        ("electra", "BertMaskedLM", {"embedding_size": 16}),
        ("electra", "BertPretrainer", {}),
        ("roberta", "BertPretrainer", {}),
    ],
)
def test_models_that_transformers_does_not_have_are_refused(tmp_path, kind, model, config):
    original = small(kind, model, config=config)
    with pytest.raises(InputError):
        write_checkpoint(original, tmp_path / "x", format="huggingface")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "config", "is_noted"),
    [
        ("roberta", {"activation": "relu"}, True),
        ("roberta", {"activation": "relu", "masked_lm_activation": "gelu"}, False),
        *((kind, {"activation": "relu"}, False) for kind in ("electra", "bert")),
        ("bert", {"masked_lm_epsilon": 1e-5}, True),
    ],
)
def test_a_masked_lm_head_that_transformers_computes_otherwise(tmp_path, kind, config, is_noted):
    original = small(kind, "BertMaskedLM", config=config)
    notes = write_checkpoint(original, tmp_path / "it", format="huggingface")
    assert any("masked-LM head" in note for note in notes) == is_noted
    assert is_noted or open_checkpoint(tmp_path / "it").metadata == original.metadata


@pytest.mark.extra
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pytorch_files(copy, dtype):
    torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    folder = copy("classification")
    state = {name: torch.tensor(array) for name, array in tensors(folder).items()}
    state = {name: tensor.to(getattr(torch, dtype)) for name, tensor in state.items()}
    state["bert.embeddings.position_ids"] = torch.arange(10)[None]
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    whole = open_checkpoint(folder)
    (folder / "pytorch_model.bin").unlink()
    weight_map = {name: f"pytorch_model-{len(name) % 2}.bin" for name in state}
    for file in {*weight_map.values()}:
        part = {name: tensor for name, tensor in state.items() if weight_map[name] == file}
        torch.save(part, folder / file)
    change_json(folder / "pytorch_model.bin.index.json", weight_map=weight_map)
    expected = open_checkpoint(FIXTURES / "classification")
    for read in (whole, open_checkpoint(folder)):
        assert read.metadata == expected.metadata
        for name, tensor in expected.tensors.items():
            tolerance = 0 if dtype == "float32" else 2e-2
            np.testing.assert_allclose(read.tensors[name].read(), tensor.read(), rtol=tolerance)


class Command:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.extra
def test_pytorch_files_with_code_are_refused_and_never_run(copy, monkeypatch, tmp_path):
    torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    monkeypatch.chdir(tmp_path)
    folder = copy("encoder")
    (folder / "model.safetensors").unlink()
    for contents in ({"a": Command()}, [1], {"a": 1}, b"PK\3\4damaged"):
        if isinstance(contents, bytes):
            (folder / "pytorch_model.bin").write_bytes(contents)
        else:
            torch.save(contents, folder / "pytorch_model.bin")
        with pytest.raises(InputError):
            open_checkpoint(folder)
    assert not Path("ran").exists()
