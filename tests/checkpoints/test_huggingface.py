"""Hugging Face's folders, without PyTorch: transformers made those of fixtures/huggingface."""

import dataclasses
import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import CLASSES
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertEncoder, load_model

FIXTURES = Path(__file__).parent / "fixtures" / "huggingface"
NAMES = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
MODELS = {
    "encoder": "BertEncoder",
    "pretraining": "BertPretrainer",
    "masked_lm": "BertMaskedLM",
    "classification": "BertClassifier",
    "token_labels": "BertTokenClassifier",
    "question_answering": "BertQuestionAnswering",
    "multiple_choice": "BertMultipleChoice",
}
NATIVE_FILES = ("bert_keras.json", "vocab.txt", "weights.safetensors")


def copy(name: str, to: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / name, to / name))


def tensors(folder: Path) -> dict[str, np.ndarray]:
    return {n: a for path in folder.glob("*.safetensors") for n, a in load_file(path).items()}


def change(path: Path, **values) -> None:
    """Of a JSON file; None takes a name away."""
    changed = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps({n: v for n, v in changed.items() if v is not None}))


def store(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    return folder


def golden(name: str) -> tuple[dict, list[np.ndarray]]:
    with np.load(FIXTURES / name / "golden.npz") as file:
        inputs = {ours: file[f"inputs/{theirs}"] for theirs, ours in NAMES.items()}
        return inputs, [file[n] for n in file.files if n.startswith("outputs/")]


@pytest.mark.parametrize("name", MODELS)
def test_outputs_equal_transformers(name):
    model = load_model(FIXTURES / name)
    assert type(model).__name__ == MODELS[name]
    inputs, theirs = golden(name)
    if "masked_lm" in ARCHITECTURES[MODELS[name]].heads:
        every = np.tile(np.arange(inputs["input_ids"].shape[1]), (len(inputs["input_ids"]), 1))
        inputs["masked_lm_positions"] = every
    if name == "encoder":
        states = model.states(inputs)
        ours = [states.hidden_states[-1], states.pooled_output, *states.hidden_states]
    else:
        outputs = model(inputs)
        ours = list(outputs.values()) if isinstance(outputs, dict) else [outputs]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_huggingface_to_huggingface_keeps_the_weights(name, tmp_path):
    checkpoint = open_checkpoint(FIXTURES / name)
    write_checkpoint(checkpoint, tmp_path / "back", format="huggingface")
    theirs, back = tensors(FIXTURES / name), tensors(tmp_path / "back")
    assert theirs.keys() == back.keys()
    for weight, array in theirs.items():
        np.testing.assert_array_equal(back[weight], array.astype(np.float32), err_msg=weight)
    assert open_checkpoint(tmp_path / "back").metadata == checkpoint.metadata
    config = json.loads((FIXTURES / name / "config.json").read_text())
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    for field in ("architectures", "id2label", "vocab_size", "layer_norm_eps", "model_type"):
        assert written.get(field) == config.get(field), field


@pytest.mark.parametrize("model", CLASSES)
@pytest.mark.parametrize("has_pooler", [True, False])
def test_native_to_huggingface_to_native_returns_the_same_files(
    checkpoint, tmp_path, model, has_pooler
):
    reads_pooled_output = ARCHITECTURES[model].reads_pooled_output
    if not has_pooler and reads_pooled_output:
        pytest.skip("reads the pooled output")
    original = checkpoint(
        model, has_pooler=has_pooler, activation="gelu_tanh", layer_norm_epsilon=1e-6
    )
    write_checkpoint(original, tmp_path / "ours", format="bert-keras")
    notes = write_checkpoint(original, tmp_path / "theirs", format="huggingface")
    max_seq_length = [note for note in notes if "pooler" in note]
    is_encoder = model == "BertEncoder"
    assert bool(max_seq_length) == (
        (not (is_encoder or reads_pooled_output)) if has_pooler else is_encoder
    )
    read = open_checkpoint(tmp_path / "theirs")
    assert (read.metadata, read.notes) == (original.metadata, ())
    write_checkpoint(read, tmp_path / "back", format="bert-keras")
    for name in NATIVE_FILES:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


def test_metadata_without_vocabulary_is_read_back(checkpoint, tmp_path):
    original = checkpoint("BertClassifier")
    metadata = dataclasses.replace(original.metadata, lowercase=False)
    original = dataclasses.replace(original, metadata=metadata, vocabulary=None)
    assert write_checkpoint(original, tmp_path / "theirs", format="huggingface") == ()
    read = open_checkpoint(tmp_path / "theirs")
    assert (read.metadata, read.vocabulary) == (metadata, None)


def test_written_files_and_keys(checkpoint, tmp_path):
    write_checkpoint(checkpoint("BertClassifier"), tmp_path / "it", format="huggingface")
    files = {path.name for path in (tmp_path / "it").iterdir()}
    assert files == {
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    config = json.loads((tmp_path / "it" / "config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "perhaps"}
    assert config["label2id"] == {"no": 0, "yes": 1, "perhaps": 2}
    assert config["bert_keras"]["text_columns"] == ["question", "answer"]
    names = tensors(tmp_path / "it").keys()
    assert {name.split(".")[0] for name in names} == {"bert", "classifier"}
    tokenizer_json = Tokenizer.from_file(str(tmp_path / "it" / "tokenizer.json"))
    tokenizer = open_checkpoint(tmp_path / "it").tokenizer
    text = f"Ab jcd, àé {'ab' * 70}"
    ids = [2, *tokenizer.encode(text).ids, 3]
    assert tokenizer_json.encode(text).ids == ids
    assert tokenizer_json.encode("a", "b").type_ids == [0, 0, 0, 1, 1]


def test_old_weight_names_are_read(tmp_path):
    """Without `bert.`, with gamma and beta, with buffers and the tied table a second time."""
    folder = copy("pretraining", tmp_path)
    arrays = tensors(folder)
    bare = {name.removeprefix("bert."): array for name, array in arrays.items()}
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in arrays.items()
    }
    twice = arrays | {
        "bert.embeddings.position_ids": np.arange(10)[None],
        "bert.embeddings.token_type_ids": np.zeros((1, 10), np.int64),
        "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": arrays["cls.predictions.bias"],
    }
    moved = {
        name.replace("cls.predictions.bias", "cls.predictions.decoder.bias"): array
        for name, array in twice.items()
    }
    expected = open_checkpoint(FIXTURES / "pretraining")
    for kind in (bare, old, twice, moved):
        read = open_checkpoint(store(folder, kind))
        assert (read.metadata, read.unused) == (expected.metadata, ())
        assert read.tensors.keys() == expected.tensors.keys()
        for name, tensor in expected.tensors.items():
            np.testing.assert_array_equal(read.tensors[name].read(), tensor.read())


@pytest.mark.parametrize(
    ("dtype", "note"),
    [
        (np.float16, "weights stored as float16 are converted to float32 without loss"),
        (ml_dtypes.bfloat16, "weights stored as bfloat16 are converted to float32 without loss"),
        (np.float64, "weights stored as float64 are rounded to float32"),
    ],
)
def test_other_float_types_are_converted_and_noted(tmp_path, dtype, note):
    folder = copy("encoder", tmp_path)
    arrays = {name: array.astype(dtype) for name, array in tensors(folder).items()}
    read = open_checkpoint(store(folder, arrays))
    assert note in read.notes
    for ours, theirs in (
        ("encoder/layer_1/feed_forward/output/kernel", "encoder.layer.1.output.dense.weight"),
        ("encoder/embeddings/token", "embeddings.word_embeddings.weight"),
    ):
        array = read.tensors[ours].read()
        expected = arrays[theirs].astype(np.float32)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected.T if ours.endswith("kernel") else expected)


def test_the_weights_decide_the_model_class(tmp_path):
    folder = copy("pretraining", tmp_path)
    change(folder / "config.json", architectures=["BertForMaskedLM"])  # as bert-base-uncased has it
    assert open_checkpoint(folder).metadata.model == "BertPretrainer"
    change(folder / "config.json", architectures=None, model_type=None)
    assert open_checkpoint(folder).metadata.model == "BertPretrainer"
    ignore = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
    read = open_checkpoint(folder, ignore=ignore)
    assert (read.metadata.model, set(read.unused)) == ("BertMaskedLM", set(ignore))
    assert read.metadata.config.has_pooler
    change(folder / "config.json", architectures=["BertForDialogue"])
    read = open_checkpoint(folder, ignore=("architectures",))
    assert read.metadata.model == "BertPretrainer"
    assert "config.json names the class BertForDialogue" in read.notes[0]


def test_labels(tmp_path):
    folder = copy("classification", tmp_path)
    shuffled = {"2": "c", "0": "a", "1": "b"}
    change(folder / "config.json", id2label=shuffled, label2id={"a": 0, "b": 2, "c": 1})
    read = open_checkpoint(folder)
    assert read.metadata.labels == ("a", "b", "c")
    assert "label2id and id2label of config.json differ; id2label is used" in read.notes
    change(folder / "config.json", id2label=None, num_labels=3)
    assert open_checkpoint(folder).metadata.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("hidden_act", "activation"),
    [("gelu", "gelu"), ("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"),
     ("relu", "relu"), ("silu", "silu"), ("swish", "silu"), ("tanh", "tanh")],
)  # fmt: skip
def test_activations(tmp_path, hidden_act, activation):
    folder = copy("encoder", tmp_path)
    change(folder / "config.json", hidden_act=hidden_act)
    assert open_checkpoint(folder).metadata.config.activation == activation


def test_absent_keys_have_the_values_of_bert_base(tmp_path):
    folder = copy("encoder", tmp_path)
    for name in ("layer_norm_eps", "hidden_act", "type_vocab_size", "hidden_dropout_prob"):
        change(folder / "config.json", **{name: None})
    config = open_checkpoint(folder).metadata.config
    assert (config.layer_norm_epsilon, config.activation, config.num_segments) == (1e-12, "gelu", 2)


def test_differences_of_transformers_are_noted(tmp_path):
    folder = copy("classification", tmp_path)
    change(
        folder / "config.json",
        classifier_dropout=0.3,
        problem_type="multi_label_classification",
        embedding_size=4,
    )
    notes = open_checkpoint(folder).notes
    assert any("classifier_dropout is 0.3; it has no effect" in note for note in notes)
    assert any("the problem_type multi_label_classification" in note for note in notes)
    assert "config.json also has embedding_size; BERT has no such keys: ignored" in notes


@pytest.mark.parametrize(("limit", "is_noted"), [(50, True), (100, False), (200, False)])
def test_an_unusual_word_limit_is_noted(tmp_path, limit, is_noted):
    folder = copy("encoder", tmp_path)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    change(folder / "tokenizer.json", model=model | {"max_input_chars_per_word": limit})
    note = f"tokenizer.json maps words of more than {limit} characters to [UNK], bert-keras "
    expected = (f"{note}those of more than 200",) if is_noted else ()
    assert open_checkpoint(folder).notes == expected


@pytest.mark.parametrize(
    "problem", ["regression", "single_label_classification", "multi_label_classification", None]
)
def test_problem_type_is_kept(tmp_path, problem):
    folder = copy("classification", tmp_path)
    change(folder / "config.json", problem_type=problem)
    read = open_checkpoint(folder)
    write_checkpoint(read, tmp_path / "back", format="huggingface")
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert (read.metadata.problem_type or None, config.get("problem_type")) == (problem, problem)


def test_the_encoder_of_an_unknown_class(tmp_path):
    folder = copy("pretraining", tmp_path)
    remaining = {n: a for n, a in tensors(folder).items() if not n.startswith("cls.predictions.")}
    store(folder, remaining)
    change(folder / "config.json", architectures=["BertForNextSentencePrediction"])
    read = open_checkpoint(folder, ignore=("architectures",))
    assert read.metadata.model == "BertEncoder"
    assert set(read.unused) == {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}
    change(folder / "config.json", architectures=["BertForPreTraining"])
    with pytest.raises(InputError, match=r"BertPretrainer.*cls\.predictions\.bias is missing"):
        open_checkpoint(folder)


def test_safetensors_files_take_precedence(tmp_path):
    folder = copy("encoder", tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    note = "the weights are read from model.safetensors, not from pytorch_model.bin"
    assert open_checkpoint(folder).notes == (note,)


def test_shards(tmp_path):
    assert len([*(FIXTURES / "pretraining").glob("*.safetensors")]) > 1
    folder = copy("pretraining", tmp_path)
    one = open_checkpoint(store(copy("pretraining", tmp_path / "one"), tensors(folder)))
    for name, tensor in open_checkpoint(folder).tensors.items():
        np.testing.assert_array_equal(tensor.read(), one.tensors[name].read())


@pytest.mark.parametrize("files", [("vocab.txt",), ("tokenizer.json",), ("vocab.txt", "both")])
def test_vocabularies(tmp_path, files):
    folder = copy("token_labels", tmp_path)
    expected = open_checkpoint(folder).vocabulary
    if "vocab.txt" in files:
        expected.save(folder / "vocab.txt")
    if files == ("vocab.txt",):
        (folder / "tokenizer.json").unlink()
    read = open_checkpoint(folder)
    assert read.vocabulary == expected
    assert (read.metadata.lowercase, read.metadata.max_length) == (False, 9)


def test_without_vocabulary(tmp_path):
    folder = copy("encoder", tmp_path)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    read = open_checkpoint(folder)
    assert read.vocabulary is None
    assert (read.metadata.lowercase, read.metadata.max_length) == (True, 10)


def test_the_vocabulary_decides_an_unstated_letter_case(tmp_path):
    folder = copy("encoder", tmp_path)
    open_checkpoint(folder).vocabulary.save(folder / "vocab.txt")
    (folder / "tokenizer.json").unlink()
    change(folder / "tokenizer_config.json", do_lower_case=None, model_max_length=10**30)
    read = open_checkpoint(folder)
    assert (read.metadata.lowercase, read.metadata.max_length) == (True, 10)
    assert "no file states the letter case of texts; the vocabulary is lower-cased" in read.notes


def test_added_tokens_can_be_ignored(tmp_path):
    folder = copy("encoder", tmp_path)
    arrays = tensors(folder)
    table = arrays["embeddings.word_embeddings.weight"]
    arrays["embeddings.word_embeddings.weight"] = np.concatenate([table, table[:1]])
    store(folder, arrays)
    change(folder / "config.json", vocab_size=17)
    (folder / "added_tokens.json").write_text('{"[NEW]": 16}')
    read = open_checkpoint(folder, ignore=("[NEW]",), pad_vocabulary=True)
    assert len(read.vocabulary) == 17
    assert (
        "the added token [NEW] with id 16 is not in the vocabulary; ignored as requested"
        in read.notes
    )


def test_a_task_model_starts_from_another_model(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"BertMaskedLM without weights of classification, pooler"):
        BertClassifier.from_pretrained(FIXTURES / "masked_lm", labels=("a", "b"))
    new = ("pooler", "classification")
    model = BertClassifier.from_pretrained(FIXTURES / "masked_lm", labels=("a", "b"), new=new)
    assert model(golden("masked_lm")[0]).shape == (3, 2)
    assert "new         pooler (2), classification (2)" in capsys.readouterr().out
    encoder = BertEncoder.from_pretrained(FIXTURES / "classification")
    encoder.save_pretrained(tmp_path / "encoder", format="huggingface")
    assert "pooler.dense.bias" in tensors(tmp_path / "encoder")
