"""Folders of sentence-transformers; parity/test_sentence_encoders.py compares with the library."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras.checkpoints.conversion import convert
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.config import TEXT_POOLINGS, DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES
from bert_keras.models import BertEncoder, BertSentenceEncoder, load_model
from tests.checkpoints.conftest import change_json
from tests.factories import assert_same_tensors, random_checkpoint
from tests.relatives import CHANGES

ENCODER = Path(__file__).parent / "fixtures" / "huggingface" / "encoder"
FULL = EmbeddingConfig(
    pooling=("mean", "lasttoken"),
    modules=(
        DenseModule(units=5, activation="gelu"),
        NormalizeModule(),
        DenseModule(units=3, activation="identity", has_bias=False),
    ),
    prompts={"query": "find: ", "passage": ""},
    default_prompt_name="query",
    includes_prompt=False,
    similarity="dot",
)
DENSE = {"in_features": 8, "out_features": 4}


def folder_of(tmp_path, *kinds, subfolder="", **pooling) -> Path:
    """Makes a folder with these modules after the encoder and the pooling `pooling`."""
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder / subfolder)
    paths = [subfolder, *(f"{index}_{kind}" for index, kind in enumerate(kinds, 1))]
    listed = [
        {"path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in zip(paths, ("Transformer", *kinds), strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    return folder


@pytest.mark.parametrize("subfolder", ["", "0_Transformer"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ("mean",)),
        ({"pooling_mode_mean_tokens": True, "word_embedding_dimension": 8}, ("mean",)),
        ({"pooling_mode": "cls", "embedding_dimension": 8}, ("cls",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({"pooling_mode_lasttoken": True, "pooling_mode_cls_token": True}, ("cls", "lasttoken")),
    ],
)
def test_poolings(tmp_path, subfolder, values, expected):
    folder = folder_of(tmp_path, "Pooling", "Dropout", "Normalize", subfolder=subfolder, **values)
    metadata = open_checkpoint(folder).metadata
    assert metadata.embedding == EmbeddingConfig(pooling=expected)
    assert (metadata.model, metadata.max_length) == ("BertSentenceEncoder", 9)
    assert isinstance(load_model(folder), BertSentenceEncoder)
    assert BertEncoder.from_pretrained(folder).metadata.embedding is None


def test_lengths_and_prompts(tmp_path):
    folder = folder_of(tmp_path, "Pooling")
    for length, expected in ((6, 6), (512, 10), (None, 9)):
        change_json(folder / "sentence_bert_config.json", max_seq_length=length)
        assert open_checkpoint(folder).metadata.max_length == expected
    (folder / "sentence_bert_config.json").unlink()
    change_json(folder / "sentence_roberta_config.json", max_seq_length=5)
    assert open_checkpoint(folder).metadata.max_length == 5
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "q: ", "document": None}, "default_prompt_name": "query"})
    )
    embedding = open_checkpoint(folder).metadata.embedding
    assert (embedding.prompts, embedding.prompt()) == ({"query": "q: ", "document": ""}, "q: ")


def test_a_folder_without_pooling_is_one_of_transformers(tmp_path):
    """As that of a CrossEncoder."""
    assert open_checkpoint(folder_of(tmp_path)).metadata.model == "BertEncoder"


def test_only_the_encoder_is_read_on_request(tmp_path):
    folder = folder_of(tmp_path, "Pooling", "WordWeights", pooling_mode="cls")
    with pytest.raises(InputError, match="WordWeights is not supported"):
        open_checkpoint(folder)
    for ignore in (("WordWeights",), ("Pooling", "WordWeights")):
        checkpoint = open_checkpoint(folder, ignore=ignore)
        assert checkpoint.metadata.model == "BertEncoder"
        assert "only the encoder is read" in checkpoint.notes[0]


@pytest.mark.parametrize(
    ("kind", "embedding"),
    [
        *((kind, FULL) for kind in FAMILIES),
        *(("bert", EmbeddingConfig(pooling=(pooling,))) for pooling in TEXT_POOLINGS),
        ("bert", EmbeddingConfig(pooling=("max", "mean"))),
    ],
)
def test_round_trip(tmp_path, kind, embedding):
    config = {"has_pooler": FAMILIES[kind].has_pooler, **CHANGES.get(kind, {})}
    original = random_checkpoint("BertSentenceEncoder", config=config, embedding=embedding)
    if "roberta" in kind:  # it counts positions from another padding id
        original = type(original)(**{**vars(original), "vocabulary": None})
    write_checkpoint(original, tmp_path / "a", format="sentence-transformers")
    read = open_checkpoint(tmp_path / "a")
    assert read.metadata.embedding == embedding
    assert read.metadata.config == original.metadata.config
    assert_same_tensors(read.tensors, original.tensors)
    write_checkpoint(read, tmp_path / "b", format="bert-keras")
    convert(tmp_path / "b", tmp_path / "c", format="sentence-transformers")
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            other = tmp_path / "c" / path.relative_to(tmp_path / "a")
            assert path.read_bytes() == other.read_bytes(), path


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        (
            ("max", "mean"),
            {
                "pooling_mode_cls_token": False,
                "pooling_mode_max_tokens": True,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
        ),
        (("mean", "max"), {"pooling_mode": ["mean", "max"]}),
    ],
)
def test_old_versions_read_the_pooling(tmp_path, pooling, expected):
    """Version 2.0 has four flags and no other keys; a new order needs the key of version 6."""
    embedding = EmbeddingConfig(pooling=pooling)
    original = random_checkpoint("BertSentenceEncoder", embedding=embedding)
    write_checkpoint(original, tmp_path / "it", format="sentence-transformers")
    values = json.loads((tmp_path / "it" / "1_Pooling" / "config.json").read_text())
    assert values == {"word_embedding_dimension": 16, **expected}


@pytest.mark.extra
def test_a_dense_module_of_a_pytorch_file(tmp_path):
    torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    folder = folder_of(tmp_path, "Pooling", "Dense")
    change_json(folder / "2_Dense" / "config.json", **DENSE)
    linear = torch.nn.Linear(8, 4)
    state = {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    torch.save(state, folder / "2_Dense" / "pytorch_model.bin")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.metadata.embedding.modules == (DenseModule(units=4),)
    kernel = checkpoint.tensors["sentence/dense_0/kernel"].read()
    np.testing.assert_array_equal(kernel, linear.weight.detach().numpy().T)


@pytest.mark.parametrize(
    ("file", "values", "named"),
    [
        ("modules.json", [1], "no list of modules"),
        ("modules.json", [{"type": "custom_st.Transformer", "path": ""}], "custom_st.Transformer"),
        (
            "modules.json",
            [{"type": "sentence_transformers.models.Transformer", "path": "../x"}],
            "expected a subfolder",
        ),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "median"),
        ("1_Pooling/config.json", {"pooling_mode": 5}, "pooling_mode is 5"),
        ("1_Pooling/config.json", {"pooling_mode_new": True}, "pooling_mode_new"),
        ("2_Dense/config.json", {**DENSE, "out_features": 3}, r"\(8, 4\), expected \(8, 3\)"),
        ("2_Dense/config.json", {**DENSE, "activation_function": "torch.nn.SiLU"}, "SiLU"),
        ("2_Dense/config.json", {**DENSE, "use_residual": True}, "use_residual"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "fill-mask"),
        ("config_sentence_transformers.json", {"truncate_dim": 4}, "--ignore truncate_dim"),
    ],
)
def test_what_would_change_the_embedding_is_refused(tmp_path, file, values, named):
    folder = folder_of(tmp_path, "Pooling", "Dense")
    change_json(folder / "2_Dense" / "config.json", **DENSE)
    weights = {"linear.weight": np.ones((4, 8), "f"), "linear.bias": np.ones(4, "f")}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    load_model(folder)
    (folder / file).write_text(json.dumps(values))
    with pytest.raises(InputError, match=named):
        load_model(folder)


def test_pooling_comes_first_and_once(tmp_path):
    with pytest.raises(InputError, match="lists Normalize, Pooling"):
        open_checkpoint(folder_of(tmp_path, "Normalize", "Pooling"))


def test_lower_case_before_a_cased_tokenizer(tmp_path):
    folder = folder_of(tmp_path, "Pooling")
    change_json(folder / "sentence_bert_config.json", do_lower_case=True)
    open_checkpoint(folder)
    (folder / "tokenizer.json").rename(folder / "other.json")
    rules = json.loads((folder / "other.json").read_text())["model"]["vocab"]
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in rules))
    change_json(folder / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(InputError, match="--ignore do_lower_case"):
        open_checkpoint(folder)
    notes = open_checkpoint(folder, ignore=("do_lower_case",)).notes
    assert notes[0].endswith("ignored as requested")
