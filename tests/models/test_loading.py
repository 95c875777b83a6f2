"""Models that are built from folders and saved: heads, labels, reports, memory."""

import dataclasses
import subprocess
import sys
from collections import UserDict

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import BertClassifier, BertEncoder, BertMaskedLM, BertPretrainer
from bert_keras.checkpoints.checkpoint import weight_part
from bert_keras.checkpoints.native import WEIGHTS, read_metadata
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.models.task_models import BertTokenClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghij"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
)


@pytest.fixture
def pretrained(tmp_path):
    keras.utils.set_random_seed(1)
    metadata = ModelMetadata(model="BertPretrainer", config=CONFIG, lowercase=False, max_length=12)
    save_model(BertPretrainer(CONFIG), tmp_path / "pre", metadata=metadata, vocabulary=VOCABULARY)
    return tmp_path / "pre"


def assert_same_weights(ours, theirs):
    for actual, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(actual, other)


def test_a_new_model_is_saved_with_default_metadata(tmp_path, capsys):
    model = BertClassifier(CONFIG, num_labels=2)
    bare = model.save_pretrained(tmp_path / "bare")
    assert not (bare / "vocab.txt").exists()
    assert read_metadata(bare).labels == ("LABEL_0", "LABEL_1")
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    named = model.save_pretrained(tmp_path / "named", tokenizer=tokenizer, labels=("no", "yes"))
    metadata = read_metadata(named)
    assert (metadata.labels, metadata.lowercase, metadata.max_length) == (("no", "yes"), False, 16)
    again = load_model(named)
    assert (again.metadata, again.tokenizer.vocabulary) == (metadata, VOCABULARY)
    assert again.tokenizer.lowercase is False and capsys.readouterr().out == ""
    assert BertClassifier.from_pretrained(named, max_length=7).preprocessor.max_length == 7
    with pytest.raises(InputError):
        model.save_pretrained(named)
    model.save_pretrained(named, labels=("a", "b"), overwrite=True)
    assert read_metadata(named).labels == ("a", "b") and not (named / "vocab.txt").exists()
    unfit = BertEncoder(dataclasses.replace(CONFIG, vocab_size=20))
    with pytest.raises(InputError):
        unfit.save_pretrained(tmp_path / "unfit", tokenizer=tokenizer)
    assert not (tmp_path / "unfit").exists()


def test_a_classifier_starts_from_the_encoder_of_a_pretrainer(pretrained, capsys):
    model = BertClassifier.from_pretrained(
        pretrained, labels=("no", "yes"), new=("classification",), hidden_dropout_rate=0.25
    )
    assert capsys.readouterr().out == (
        f"{pretrained}\nloaded      encoder (21 weights), pooler (2)\n"
        "new         classification (2)\nunused      masked_lm (5), next_sentence (2)\n"
    )
    assert model.config.hidden_dropout_rate == 0.25
    assert model.metadata.labels == ("no", "yes")
    stored = load_file(pretrained / WEIGHTS)
    np.testing.assert_array_equal(stored["encoder/embeddings/token"], model.encoder.token_table)
    assert_same_weights(BertEncoder.from_pretrained(pretrained), model.encoder)


def test_a_missing_head_is_new(pretrained, tmp_path, capsys):
    for labels in ({"labels": 2}, {"num_labels": 2}):
        model = BertClassifier.from_pretrained(pretrained, **labels)
        assert model.metadata.labels == ("LABEL_0", "LABEL_1")
    report = capsys.readouterr().out
    assert "new         classification (2)" in report and "classification are random" in report
    model.save_pretrained(tmp_path / "named", labels=("no", "yes"))
    again = BertClassifier.from_pretrained(tmp_path / "named", num_labels=2)
    assert again.metadata.labels == ("no", "yes") and "random" not in capsys.readouterr().out
    for wrong in (
        *({"new": "pooler"}, {"new": ("head",)}, {"num_labels": 2}, {"labels": ["a"]}),
        *({"labels": 0}, {"labels": ("no", 1)}, {"labels": {"no", "yes"}}, {"labels": None}),
        {"labels": (), "new": ("classification",)},
    ):
        with pytest.raises(InputError):
            BertClassifier.from_pretrained(pretrained, **{"labels": ("no", "yes"), **wrong})
    with pytest.raises(InputError):
        BertTokenClassifier.from_pretrained(pretrained, labels=("O", "PER"))
    words = BertMaskedLM.from_pretrained(pretrained, has_pooler=False)
    words_folder = words.save_pretrained(tmp_path / "words")
    new = BertPretrainer.from_pretrained(words_folder).load_report.new
    assert set(map(weight_part, new)) == {"next_sentence", "pooler"}
    stored = load_file(words_folder / WEIGHTS).items()
    save_file({n: a for n, a in stored if weight_part(n) == "encoder"}, words_folder / WEIGHTS)
    with pytest.raises(InputError):
        load_model(words_folder)


def test_labels_must_match_the_head(tmp_path):
    model = BertClassifier(CONFIG, num_labels=2)
    for labels in (("one",), ("a", "a"), "ab"):
        with pytest.raises(InputError):
            model.save_pretrained(tmp_path / "model", labels=labels)
    model.save_pretrained(tmp_path / "named", labels=("no", "yes"))
    for labels in (3, ("yes", "no")):
        with pytest.raises(InputError):
            BertClassifier.from_pretrained(tmp_path / "named", labels=labels)
    model.save_pretrained(tmp_path / "unnamed")
    named = BertClassifier.from_pretrained(tmp_path / "unnamed", labels=("no", "yes"))
    assert named.metadata.labels == ("no", "yes")


def test_all_weights_that_do_not_fit_are_named(pretrained):
    for changes in ({"max_positions": 32}, {"num_layers": 2}, {"num_label": 2}):
        with pytest.raises(InputError):
            BertEncoder.from_pretrained(pretrained, **changes)
    stored = load_file(pretrained / WEIGHTS)
    del stored["encoder/pooler/bias"]
    stored["encoder/embeddings/segment"] = np.zeros((3, 8), "float32")
    stored["encoder/layer_1/attention/query/bias"] = np.zeros(8, "float32")
    save_file(stored, pretrained / WEIGHTS)
    with pytest.raises(InputError) as error:
        BertEncoder.from_pretrained(pretrained)
    names = "encoder/pooler/bias", "encoder/embeddings/segment", "layer_1/attention/query/bias"
    assert all(datum in str(error.value) for datum in (*names, "(3, 8)", "(2, 8)"))


MEMORY = """
import sys
from pathlib import Path
from bert_keras import BertEncoder

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

small, large = sys.argv[1:]
BertEncoder.from_pretrained(small)
Path("/proc/self/clear_refs").write_text("5")
before = peak()
encoder = BertEncoder.from_pretrained(large)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["bert-keras", "huggingface"])
def test_loading_needs_the_memory_of_the_weights_and_of_one_copy_of_the_largest(tmp_path, format):
    sizes = {"num_layers": 2, "num_heads": 8, "max_positions": 64}
    for name, hidden_size in (("small", 16), ("large", 768)):
        config = BertConfig(vocab_size=20_000, hidden_size=hidden_size, **sizes)
        BertEncoder(config).save_pretrained(tmp_path / name, format=format)
    file = max((tmp_path / "large").iterdir(), key=lambda path: path.stat().st_size)
    command = [sys.executable, "-c", MEMORY, tmp_path / "small", tmp_path / "large"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    largest = 4 * 20_000 * 768
    assert int(done.stdout.splitlines()[-1]) <= 1.1 * file.stat().st_size + largest


def test_a_model_in_a_name_scope_is_loaded_and_saved(tmp_path):
    model = BertClassifier(CONFIG, num_labels=3)
    model.save_pretrained(tmp_path / "model")
    with keras.name_scope("parent"):
        inner = BertClassifier.from_pretrained(tmp_path / "model")
    assert inner.weights[0].path.startswith("parent/classifier/encoder/")
    inner.save_pretrained(tmp_path / "twin")
    assert_same_weights(model, load_model(tmp_path / "twin"))


def test_inputs_may_have_the_names_of_transformers(pretrained):
    model = BertClassifier.from_pretrained(pretrained, labels=2)
    ids = np.array([[2, 7, 8, 3, 0, 0], [2, 9, 3, 6, 3, 0]])
    mask, segments = np.where(ids > 0, 1, 0), np.array([6 * [0], [0, 0, 0, 1, 1, 0]])
    expected = model({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
    theirs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    np.testing.assert_array_equal(model(UserDict(theirs)), expected)
    np.testing.assert_allclose(model.predict_on_batch(theirs), expected, atol=1e-6)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(theirs, np.array([0, 1]), verbose=0)
    ids, mask, encoder = ids[:, :3], mask[:, :3], model.encoder
    whole = encoder({"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids})
    inputs = keras.Input((None,), dtype="int32", name="input_ids")
    outer = keras.Model(inputs, encoder({"input_ids": inputs})["sequence_output"])
    for bare in (outer(ids), encoder.states({"input_ids": ids}).sequence_output):
        np.testing.assert_allclose(bare, whole["sequence_output"], atol=1e-6)
    for wrong in (
        *({"attention_mask": mask}, {"input_ids": ids, "input_mask": mask, "attention_mask": mask}),
        *(
            {"input_ids": each}
            for each in ([[2, 3]], np.ones((1, 17), int), ids + 9, ids / 2, ids[0])
        ),
        *(
            {"input_ids": ids, "input_mask": mask[:, 1:]},
            {"input_ids": ids, "token_type_ids": mask.T},
        ),
    ):
        with pytest.raises(InputError):
            model(wrong)


def test_two_encoders_in_one_functional_model(pretrained):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in SEQUENCE_FEATURES}
    encoders = [BertEncoder.from_pretrained(pretrained, name=name) for name in ("query", "answer")]
    outputs = [encoder(inputs)["pooled_output"] for encoder in encoders]
    model = keras.Model(inputs, keras.layers.Concatenate()(outputs))
    assert {"query", "answer"} < {layer.name for layer in model.layers}
