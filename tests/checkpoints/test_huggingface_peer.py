"""Folders of Hugging Face, beside transformers: what we write it reads, what it writes we read."""

import dataclasses
import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import CLASSES
from bert_keras.models import MODELS, load_model
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

FOLDER = Path(__file__).parent
FIXTURES = FOLDER / "fixtures" / "huggingface"
AUTO = {
    "BertEncoder": "AutoModel",
    "BertPretrainer": "AutoModelForPreTraining",
    "BertMaskedLM": "AutoModelForMaskedLM",
    "BertClassifier": "AutoModelForSequenceClassification",
    "BertTokenClassifier": "AutoModelForTokenClassification",
    "BertQuestionAnswering": "AutoModelForQuestionAnswering",
    "BertMultipleChoice": "AutoModelForMultipleChoice",
}
POOLER = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
LETTERS = [chr(number) for number in (*range(33, 127), 0xDF, 0xE9, 0x4E2D, 0xAC00, 0x1F600)]


@pytest.fixture(autouse=True, scope="module")
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def loaded(model: str, folder: Path):
    auto = getattr(transformers, AUTO[model])
    return auto.from_pretrained(folder, output_loading_info=True)


def outputs_of_both(name: str, ours, theirs) -> list[tuple]:
    random = np.random.default_rng(0)
    shape = (3, 2, 11) if name == "BertMultipleChoice" else (3, 11)
    real = np.array([11, 6, 3]).reshape(3, *[1] * (len(shape) - 1))
    mask = (np.arange(11) < real) * np.ones(shape, "int64")
    ids, segments = random.integers(0, 20, shape), random.integers(0, 2, shape)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    if "masked_lm" in ARCHITECTURES[name].heads:
        inputs["masked_lm_positions"] = np.tile(np.arange(11), (3, 1))
    original = ours(inputs)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(mask),
            token_type_ids=torch.tensor(segments),
        ).to_tuple()
    original = list(original.values()) if isinstance(original, dict) else [original]
    return list(zip(original, expected, strict=True))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("has_pooler", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_transformers_reads_our_files(checkpoint, tmp_path, name, has_pooler, activation):
    if ARCHITECTURES[name].reads_pooled_output and not has_pooler:
        pytest.skip("reads the pooled output")
    original = checkpoint(name, has_pooler=has_pooler, activation=activation, num_segments=2)
    notes = write_checkpoint(original, tmp_path / "it", format="huggingface")
    theirs, info = loaded(name, tmp_path / "it")
    assert not info["mismatched_keys"] and not info["error_msgs"]
    reads_pooler = ARCHITECTURES[name].reads_pooled_output or name == "BertEncoder"
    unexpected = POOLER if has_pooler and not reads_pooler else set()
    absent = set() if has_pooler or name != "BertEncoder" else POOLER
    assert set(info["unexpected_keys"]) == unexpected
    assert set(info["missing_keys"]) == {key.removeprefix("bert.") for key in absent}
    assert any("pooler" in note for note in notes) == bool(unexpected or absent)
    if original.metadata.labels:
        assert theirs.config.id2label == dict(enumerate(original.metadata.labels))
    if name == "BertEncoder" and not has_pooler:
        theirs.pooler = None
    ours = MODELS[name].from_checkpoint(original, metadata=original.metadata, source="random")
    for one, other in outputs_of_both(name, ours, theirs.eval()):
        if other is not None:
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("lowercase", [True, False])
def test_auto_tokenizer_gives_our_ids(checkpoint, tmp_path, lowercase):
    tokens = (*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "##ing")
    original = checkpoint("BertEncoder", vocabulary=Vocabulary(tokens), max_positions=300)
    metadata = dataclasses.replace(original.metadata, lowercase=lowercase, max_length=32)
    original = dataclasses.replace(original, metadata=metadata)
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "it")
    ours = original.tokenizer
    texts = [
        "The thing, naïvely: Straße 中文한글 and 😀😀!",
        "don't   stop\tnow\n(e.g. 3.14%)\u00a0\u200bÉcole ÉCOLE",
        f"{'ab' * 50} {'x' * 99}",
        "",
    ]
    for text in texts:
        assert theirs(text)["input_ids"] == [2, *ours.encode(text).ids, 3]
    pair = theirs(texts[0], texts[1], truncation=True)
    assert len(pair["input_ids"]) == theirs.model_max_length == 32
    assert set(pair["token_type_ids"]) == {0, 1}
    assert theirs.decode(ours.encode("the thing").ids) == "the thing"


@pytest.mark.parametrize("name", CLASSES)
def test_a_checkpoint_saved_again_by_transformers_is_the_same(checkpoint, tmp_path, name):
    original = checkpoint(
        name, has_pooler=ARCHITECTURES[name].reads_pooled_output or name == "BertEncoder"
    )
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    model, _ = loaded(name, tmp_path / "it")
    model.save_pretrained(tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "it")
    tokenizer.save_pretrained(tmp_path / "again")
    read = open_checkpoint(tmp_path / "again")
    assert (read.metadata, read.vocabulary) == (original.metadata, original.vocabulary)
    for weight, tensor in original.tensors.items():
        assert read.tensors[weight].read().tobytes() == tensor.read().tobytes()


def test_metadata_of_another_model_class_is_ignored(checkpoint, tmp_path):
    write_checkpoint(checkpoint("BertClassifier"), tmp_path / "it", format="huggingface")
    model = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "it")
    model.save_pretrained(tmp_path / "again")
    assert "question" in (tmp_path / "again" / "config.json").read_text()
    metadata = open_checkpoint(tmp_path / "again").metadata
    assert (metadata.model, metadata.text_columns) == ("BertTokenClassifier", ())


def test_the_fixtures_can_be_made_again(tmp_path):
    runpy.run_path(str(FOLDER / "make_huggingface_fixtures.py"))["main"](tmp_path)
    for path in sorted(FIXTURES.rglob("*")):
        again = tmp_path / path.relative_to(FIXTURES)
        if path.suffix == ".safetensors":
            assert again.read_bytes() == path.read_bytes(), path
        if path.suffix == ".npz":
            with np.load(path) as one, np.load(again) as other:
                for name in one.files:  # made on another processor, which adds in another order
                    np.testing.assert_allclose(one[name], other[name], atol=1e-5)


@pytest.mark.parametrize("kind", ["mapped", "the older kind", "shards"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_pytorch_files(tmp_path, kind, dtype):
    folder = Path(shutil.copytree(FIXTURES / "classification", tmp_path / "it"))
    state = transformers.AutoModelForSequenceClassification.from_pretrained(folder).state_dict()
    state = {name: tensor.to(getattr(torch, dtype)) for name, tensor in state.items()}
    state["bert.embeddings.position_ids"] = torch.arange(10)[None]
    (folder / "model.safetensors").unlink()
    if kind == "shards":
        weight_map = {name: f"pytorch_model-{len(name) % 2}.bin" for name in state}
        for file in set(weight_map.values()):
            part = {name: tensor for name, tensor in state.items() if weight_map[name] == file}
            torch.save(part, folder / file)
        index = json.dumps({"weight_map": weight_map})
        (folder / "pytorch_model.bin.index.json").write_text(index)
    else:
        torch.save(
            state,
            folder / "pytorch_model.bin",
            _use_new_zipfile_serialization=kind == "mapped",
        )
    model, expected = load_model(folder), load_model(FIXTURES / "classification")
    assert model.metadata == expected.metadata
    tolerance = 0 if dtype == "float32" else 2e-2
    for one, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance)
