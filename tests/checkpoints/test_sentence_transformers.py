"""Folders of sentence-transformers, without PyTorch."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras.architectures import SENTENCE_ENCODER
from bert_keras.checkpoints.conversion import convert
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.embedding import POOLINGS, DenseModule, EmbeddingConfig, NormalizeModule
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES
from bert_keras.models import BertEncoder, BertSentenceEncoder, load_model

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


def write(folder: Path, values) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text(json.dumps(values))


def folder_of(tmp_path, *kinds, subfolder="", **pooling) -> Path:
    """Makes a folder with these modules after the encoder and the pooling `pooling`."""
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder / subfolder)
    paths = [subfolder, *(f"{index}_{kind}" for index, kind in enumerate(kinds, 1))]
    listed = [
        {"path": path, "type": f"sentence_transformers.models.{kind}"}
        for path, kind in zip(paths, ("Transformer", *kinds), strict=True)
    ]
    write(folder / "modules.json", listed)
    write(folder / "1_Pooling" / "config.json", pooling)
    return folder


@pytest.mark.parametrize("subfolder", ["", "0_Transformer"])
def test_read(tmp_path, subfolder):
    folder = folder_of(tmp_path, "Pooling", "Normalize", subfolder=subfolder)
    pooling = folder / "1_Pooling" / "config.json"
    for values, expected in (
        ({}, ("mean",)),
        ({"pooling_mode_mean_tokens": True, "word_embedding_dimension": 8}, ("mean",)),
        ({"pooling_mode": "cls", "embedding_dimension": 8}, ("cls",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
        ({"pooling_mode_lasttoken": True, "pooling_mode_cls_token": True}, ("cls", "lasttoken")),
    ):
        write(pooling, values)
        metadata = open_checkpoint(folder).metadata
        assert metadata.embedding == EmbeddingConfig(pooling=expected)
    assert (metadata.model, metadata.max_length) == (SENTENCE_ENCODER.name, 9)
    for max_seq_length, length in ((6, 6), (512, 10), (None, 9)):
        settings = {"max_seq_length": max_seq_length, "do_lower_case": True}
        write(folder / subfolder / "sentence_bert_config.json", settings)
        assert open_checkpoint(folder).metadata.max_length == length
    (folder / subfolder / "sentence_bert_config.json").unlink()
    write(folder / subfolder / "sentence_roberta_config.json", {"max_seq_length": 5})
    assert open_checkpoint(folder).metadata.max_length == 5
    write(
        folder / "config_sentence_transformers.json",
        {"prompts": {"query": "q: ", "document": None}, "default_prompt_name": "query"},
    )
    embedding = open_checkpoint(folder).metadata.embedding
    assert (embedding.prompts, embedding.prompt()) == (
        {"query": "q: ", "document": ""},
        "q: ",
    )
    assert isinstance(load_model(folder), BertSentenceEncoder)
    assert BertEncoder.from_pretrained(folder).metadata.embedding is None
    for values in ({"prompts": ["q: "]}, {"default_prompt_name": []}):
        write(folder / "config_sentence_transformers.json", values)
        with pytest.raises(InputError, match="expected texts by name and one of the names"):
            open_checkpoint(folder)


def test_modules_that_change_nothing(tmp_path):
    folder = folder_of(tmp_path, "Pooling", "Dropout", "Normalize")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.metadata.embedding == EmbeddingConfig()
    assert "Dropout has no effect outside of training; it is not kept" in checkpoint.notes[0]
    listed = json.loads((folder / "modules.json").read_text())
    write(folder / "modules.json", listed[:1])  # as a CrossEncoder has it
    assert open_checkpoint(folder).metadata.model == "BertEncoder"


def test_only_the_encoder_is_read_on_request(tmp_path):
    folder = folder_of(tmp_path, "Pooling", "WordWeights", pooling_mode="cls")
    with pytest.raises(InputError, match=r"the module WordWeights of .* is not supported; known: "):
        open_checkpoint(folder)
    for ignore in (("WordWeights",), ("Pooling", "WordWeights")):
        checkpoint = open_checkpoint(folder, ignore=ignore)
        assert checkpoint.metadata.model == "BertEncoder"
        assert "only the encoder is read" in checkpoint.notes[0]


@pytest.mark.parametrize("embedding", [FULL, *(EmbeddingConfig(pooling=(p,)) for p in POOLINGS)])
@pytest.mark.parametrize("kind", FAMILIES)
def test_round_trip(checkpoint, tmp_path, kind, embedding):
    if kind != "bert" and embedding is not FULL:
        pytest.skip("one embedding for each relative")
    family = FAMILIES[kind]
    changes = {"has_pooler": family.has_pooler, **family.traits}
    changes |= {} if "num_segments" in family.sizes else {"num_segments": 0}
    changes |= {"embedding_size": 4} if "embedding_size" in family.sizes else {}
    original = checkpoint("BertSentenceEncoder", **changes)
    metadata = dataclasses.replace(original.metadata, embedding=embedding)
    random = np.random.default_rng(1)
    arrays = {r.name: random.normal(size=r.shape).astype("float32") for r in rows(metadata)}
    tensors = {name: StoredTensor(a.shape, lambda a=a: a) for name, a in arrays.items()}
    vocabulary = original.vocabulary if kind in ("bert", "distilbert") else None
    original = dataclasses.replace(
        original, metadata=metadata, tensors=tensors, vocabulary=vocabulary
    )
    write_checkpoint(original, tmp_path / "a", format="sentence-transformers")
    read = open_checkpoint(tmp_path / "a")
    assert read.metadata == metadata
    assert {*read.tensors} == {*arrays}
    for name, array in arrays.items():
        np.testing.assert_array_equal(read.tensors[name].read(), array)
    write_checkpoint(read, tmp_path / "b", format="bert-keras")
    convert(tmp_path / "b", tmp_path / "c", format="sentence-transformers")
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            other = tmp_path / "c" / path.relative_to(tmp_path / "a")
            assert path.read_bytes() == other.read_bytes(), path


def test_old_versions_read_the_pooling(checkpoint, tmp_path):
    """Version 2.0 has four flags and no other keys; a new order needs the key of version 6."""
    for number, (pooling, expected) in enumerate(
        {
            ("max", "mean"): {
                "word_embedding_dimension": 8,
                "pooling_mode_cls_token": False,
                "pooling_mode_max_tokens": True,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
            ("mean", "max"): {"word_embedding_dimension": 8, "pooling_mode": ["mean", "max"]},
        }.items()
    ):
        original = checkpoint("BertSentenceEncoder")
        embedding = EmbeddingConfig(pooling=pooling)
        metadata = dataclasses.replace(original.metadata, embedding=embedding)
        original = dataclasses.replace(original, metadata=metadata)
        write_checkpoint(original, tmp_path / str(number), format="sentence-transformers")
        values = json.loads((tmp_path / str(number) / "1_Pooling/config.json").read_text())
        assert values == expected


@pytest.mark.extra
def test_a_dense_module_of_a_pytorch_file(tmp_path):
    torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    folder = folder_of(tmp_path, "Pooling", "Dense")
    write(folder / "2_Dense" / "config.json", {"in_features": 8, "out_features": 4})
    linear = torch.nn.Linear(8, 4)
    state = {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    torch.save(state, folder / "2_Dense" / "pytorch_model.bin")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.metadata.embedding.modules == (DenseModule(units=4),)
    kernel = checkpoint.tensors["sentence/dense_0/kernel"].read()
    np.testing.assert_array_equal(kernel, linear.weight.detach().numpy().T)


DENSE = {"in_features": 8, "out_features": 4}


@pytest.mark.parametrize(
    ("file", "values", "sentence"),
    [
        ("modules.json", [], r"modules.json does not begin with a Transformer; expected a file of"),
        ("modules.json", [1], "modules.json is not a list of modules; expected a file of sentence"),
        ("modules.json", [{"type": "sentence_transformers.models.Transformer", "path": "../x"}],
         r"modules.json names ../x of .*Transformer; expected a subfolder"),
        ("modules.json", [{"type": "custom_st.Transformer", "path": ""}],
         "does not begin with a Transformer"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "pooling_mode has median; expected"),
        ("1_Pooling/config.json", {"embedding_dimension": 9}, "the hidden size 9; expected 8"),
        ("1_Pooling/config.json", {"pooling_mode_new": True}, "has pooling_mode_new, which bert-k"),
        ("2_Dense/config.json", DENSE | {"in_features": 7}, "in_features is 7; expected 8"),
        ("2_Dense/config.json", DENSE | {"out_features": 3},
         r"2_Dense is not the dense module of its config: linear.weight has the shape \(4, 8\), "),
        ("2_Dense/config.json", DENSE | {"activation_function": "torch.nn.SiLU"},
         "activation_function is torch.nn.SiLU; expected one of torch.nn.modules.linear.Identity"),
        ("2_Dense/config.json", DENSE | {"use_residual": True}, "use_residual is True; expected"),
        ("2_Dense/config.json", DENSE | {"module_input_name": "token_embeddings"},
         "module_input_name is 'token_embeddings'; expected 'sentence_embedding'"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"},
         "transformer_task is 'fill-mask'; expected 'feature-extraction'"),
        ("config_sentence_transformers.json", {"truncate_dim": 4},
         r"cuts embeddings to 4 values; .* --ignore truncate_dim"),
    ],
)  # fmt: skip
def test_refused(tmp_path, file, values, sentence):
    folder = folder_of(tmp_path, "Pooling", "Dense")
    write(folder / "2_Dense" / "config.json", DENSE)
    weights = {"linear.weight": np.ones((4, 8), "f"), "linear.bias": np.ones(4, "f")}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    open_checkpoint(folder)
    write(folder / file, values)
    with pytest.raises(InputError, match=sentence):
        open_checkpoint(folder)


def test_pooling_comes_first_and_once(tmp_path):
    folder = folder_of(tmp_path, "Normalize", "Pooling")
    with pytest.raises(
        InputError, match="lists Normalize, Pooling after the encoder; expected one"
    ):
        open_checkpoint(folder)


def test_lower_case_before_a_cased_tokenizer(tmp_path):
    folder = folder_of(tmp_path, "Pooling")
    write(folder / "sentence_bert_config.json", {"do_lower_case": True})
    for file, key in (("tokenizer_config.json", "do_lower_case"),):
        values = json.loads((folder / file).read_text())
        write(folder / file, values | {key: False, "strip_accents": None})
    rules = json.loads((folder / "tokenizer.json").read_text())
    rules["normalizer"] |= {"lowercase": False, "strip_accents": None}
    write(folder / "tokenizer.json", rules)
    with pytest.raises(InputError, match=r"lower-cases texts before .* --ignore do_lower_case"):
        open_checkpoint(folder)
    notes = open_checkpoint(folder, ignore=("do_lower_case",)).notes
    assert notes[0].endswith("ignored as requested")
