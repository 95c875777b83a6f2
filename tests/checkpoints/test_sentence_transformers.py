"""Folders of sentence-transformers; parity/test_sentences.py compares with the library."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras import BertEncoder
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.config import TEXT_POOLINGS, DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES
from bert_keras.models.loading import load_model
from bert_keras.runs.conversion import convert
from tests.checkpoints.conftest import assert_same_files, change_json
from tests.factories import assert_same_tensors, random_checkpoint
from tests.relatives import CHANGES

ENCODER = Path(__file__).parent / "fixtures" / "huggingface" / "encoder"
LAST = DenseModule(units=3, activation="identity", has_bias=False)
FULL = EmbeddingConfig(
    pooling=("cls", "mean"),
    modules=(DenseModule(units=5, activation="gelu"), NormalizeModule(), LAST),
    prompts={"query": "find: ", "passage": ""},
    default_prompt_name="query",
    similarity="dot",
)
DENSE = {"in_features": 8, "out_features": 4}
OUTSIDE = {"type": "sentence_transformers.models.Transformer", "path": "../model"}


def folder_of(tmp_path, *kinds, subfolder="", **pooling) -> Path:
    """Makes a folder with these modules after the encoder and the pooling `pooling`."""
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder / subfolder)
    paths = [subfolder, *(f"{index}_{kind}" for index, kind in enumerate(kinds, 1))]
    types = [f"sentence_transformers.models.{kind}" for kind in ("Transformer", *kinds)]
    listed = [{"path": path, "type": kind} for path, kind in zip(paths, types, strict=True)]
    (folder / "modules.json").write_text(json.dumps(listed))
    change_json(folder / "1_Pooling" / "config.json", **pooling)
    return folder


@pytest.mark.parametrize(
    ("subfolder", "values", "expected"),
    [
        ("", {}, ("mean",)),
        ("0_Transformer", {"pooling_mode_mean_tokens": True}, ("mean",)),
        ("", {"pooling_mode": "cls", "embedding_dimension": 8}, ("cls",)),
        ("", {"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ("", {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}, ("cls", "max")),
    ],
)
def test_poolings(tmp_path, subfolder, values, expected):
    folder = folder_of(tmp_path, "Pooling", "Dropout", "Normalize", subfolder=subfolder, **values)
    metadata = load_model(folder).metadata
    assert metadata.embedding == EmbeddingConfig(pooling=expected)
    assert (metadata.model, metadata.max_length) == ("BertSentenceEncoder", 9)
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


def test_only_the_encoder_is_read_without_pooling(tmp_path):
    cross_encoder = folder_of(tmp_path / "other")
    assert open_checkpoint(cross_encoder).metadata.model == "BertEncoder"
    folder = folder_of(tmp_path, "Pooling", "WordWeights", pooling_mode="cls")
    with pytest.raises(InputError):
        open_checkpoint(folder)


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
    if "position_offset" in config:  # it counts positions from another padding id
        original = type(original)(**{**vars(original), "vocabulary": None})
    write_checkpoint(original, tmp_path / "a", format="sentence-transformers")
    read = open_checkpoint(tmp_path / "a")
    assert read.metadata.embedding == embedding
    assert read.metadata.config == original.metadata.config
    assert_same_tensors(read.tensors, original.tensors)
    write_checkpoint(read, tmp_path / "b", format="bert-keras")
    convert(tmp_path / "b", tmp_path / "c", format="sentence-transformers")
    (tmp_path / "c" / "README.md").unlink(missing_ok=True)
    assert_same_files(tmp_path / "a", tmp_path / "c")


def test_old_versions_read_the_pooling(tmp_path):
    """Version 2.0 has four flags and no other keys; a new order needs the key of version 6."""
    flags = dict.fromkeys(("pooling_mode_max_tokens", "pooling_mode_mean_tokens"), True)
    flags |= dict.fromkeys(("pooling_mode_cls_token", "pooling_mode_mean_sqrt_len_tokens"), False)
    ordered = {"pooling_mode": ["mean", "max"]}
    for pooling, expected in ((("max", "mean"), flags), (("mean", "max"), ordered)):
        embedding, folder = EmbeddingConfig(pooling=pooling), tmp_path / pooling[0]
        original = random_checkpoint("BertSentenceEncoder", embedding=embedding)
        write_checkpoint(original, folder, format="sentence-transformers")
        values = json.loads((folder / "1_Pooling" / "config.json").read_text())
        assert values == {"word_embedding_dimension": 16, **expected}


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("modules.json", [1]),
        ("modules.json", [{"type": "custom_st.Transformer", "path": ""}]),
        ("modules.json", [OUTSIDE]),
        ("1_Pooling/config.json", {"pooling_mode": "median"}),
        ("1_Pooling/config.json", {"pooling_mode_new": True}),
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("2_Dense/config.json", {**DENSE, "out_features": 3}),
        ("2_Dense/config.json", {**DENSE, "activation_function": "torch.nn.SiLU"}),
        ("2_Dense/config.json", {**DENSE, "use_residual": True}),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}),
        ("config_sentence_transformers.json", {"prompts": [1]}),
        ("config_sentence_transformers.json", {"truncate_dim": 4}),
    ],
)
def test_values_that_would_change_the_embedding_are_refused(tmp_path, file, values):
    folder = folder_of(tmp_path, "Pooling", "Dense")
    change_json(folder / "2_Dense" / "config.json", **DENSE)
    weights = {"linear.weight": np.ones((4, 8), "f"), "linear.bias": np.ones(4, "f")}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    load_model(folder)
    (folder / file).write_text(json.dumps(values))
    with pytest.raises(InputError):
        load_model(folder)


def test_lower_case_before_a_cased_tokenizer(tmp_path):
    folder = folder_of(tmp_path, "Pooling")
    change_json(folder / "sentence_bert_config.json", do_lower_case=True)
    open_checkpoint(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    cased = {**tokenizer["normalizer"], "lowercase": False}
    change_json(folder / "tokenizer.json", normalizer=cased)
    change_json(folder / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(InputError):
        open_checkpoint(folder)
    assert open_checkpoint(folder, ignore=("do_lower_case",)).notes
    (folder / "modules.json").unlink()
    with pytest.raises(InputError):
        open_checkpoint(folder)
    without_a_pooling_first = folder_of(tmp_path / "other", "Normalize", "Pooling")
    with pytest.raises(InputError):
        open_checkpoint(without_a_pooling_first)
