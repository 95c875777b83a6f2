"""What an error message of models, data and texts tells the user to do succeeds."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.data.preprocessor import Preprocessor
from bert_keras.errors import InputError
from bert_keras.models import (
    BertClassifier,
    BertMaskedLM,
    BertPretrainer,
    BertQuestionAnswering,
    BertSentenceEncoder,
)
from bert_keras.models.keras_hub import to_keras_hub
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film")))
CONFIG = BertConfig(vocab_size=8, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    BertMaskedLM(CONFIG).save_pretrained(folder / "masked-lm", tokenizer=TOKENIZER)
    classifier = BertClassifier(CONFIG, num_labels=2)
    classifier.save_pretrained(folder / "classifier", tokenizer=TOKENIZER, labels=("no", "yes"))
    classifier.metadata = dataclasses.replace(
        classifier.stored_metadata(TOKENIZER),
        task={"name": "classification", "long_texts": "mean", "max_length": 8},
        text_columns=("text",),
    )
    classifier.save_pretrained(folder / "windows", tokenizer=TOKENIZER)
    (folder / "texts.tsv").write_text("text\ngood film\n")
    return folder


def classifier(folders, name, **options):
    return BertClassifier.from_pretrained(folders / name, **options)


def preprocessor(max_length=8):
    return Preprocessor(TOKENIZER, max_length=max_length)


def untrained(**fields):
    return BertClassifier(dataclasses.replace(CONFIG, **fields), num_labels=2)


INPUTS = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.ones((1, 4), "int32"))
LONG = [20 * "good "]
CAUSAL = dataclasses.replace(CONFIG, is_causal=True)


def predicted(model, texts, preprocessor=None):
    if preprocessor:
        model.preprocessor = preprocessor
    return model.predict(texts, verbose=0)


def predicted_by_command(model, data):
    command = ["predict", "classification", "--model", str(model), "--data", str(data)]
    assert main([*command, "--output", str(model / "answers.tsv")]) == 0
    return (model / "answers.tsv").read_text("utf-8")


def texts(*columns):
    return tf.data.Dataset.from_tensor_slices(*columns)


def fitted(folders, dataset):
    model = classifier(folders, "classifier")
    model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
    return model.fit(dataset, shuffle=False, verbose=0)


def sentence_encoder(folders, tokenizer=None):
    model = BertSentenceEncoder(CONFIG)
    if tokenizer:
        model.tokenizer = tokenizer
    return model.encode(["good film"])


def loaded_sentence_encoder(folders):
    return BertSentenceEncoder.from_pretrained(folders / "masked-lm").encode(["good film"])


CASES = {
    "has no tokenizer; load it from a folder that has a vocabulary": (
        sentence_encoder,
        loaded_sentence_encoder,
    ),
    "that has a vocabulary, or set model.tokenizer": (
        sentence_encoder,
        lambda f: sentence_encoder(f, TOKENIZER),
    ),
    "needs labels, such as ('no', 'yes')": (
        lambda f: classifier(f, "masked-lm", new=["classification"]),
        lambda f: classifier(f, "masked-lm", new=["classification"], labels=("no", "yes")),
    ),
    "has the labels no, yes; omit labels": (
        lambda f: classifier(f, "classifier", labels=("a", "b")),
        lambda f: classifier(f, "classifier"),
    ),
    "or start with a new head: new=('classification',)": (
        lambda f: classifier(f, "classifier", labels=("a", "b")),
        lambda f: classifier(f, "classifier", labels=("a", "b"), new=("classification",)),
    ),
    "to start with random ones: new=('classification',)": (
        lambda f: classifier(f, "masked-lm", labels=("a", "b")),
        lambda f: classifier(f, "masked-lm", labels=("a", "b"), new=("classification",)),
    ),
    "new is 'pooler'; expected a sequence, such as ('pooler',)": (
        lambda f: classifier(f, "classifier", new="pooler"),
        lambda f: classifier(f, "classifier", new=("pooler",)),
    ),
    "set model.preprocessor = Preprocessor(tokenizer, max_length=128)": (
        lambda f: predicted(untrained(), ["good"]),
        lambda f: predicted(untrained(), ["good"], preprocessor()),
    ),
    "has no tokenizer, so it cannot take texts; set model.preprocessor = Preprocessor(tokenizer, "
    "max_length=128), or give input_ids, input_mask and segment_ids": (
        lambda f: predicted(untrained(), ["good"]),
        lambda f: predicted(untrained(), INPUTS),
    ),
    "use bert-keras predict or an exported model": (
        lambda f: predicted(classifier(f, "windows"), ["good"]),
        lambda f: predicted_by_command(f / "windows", f / "texts.tsv"),
    ),
    "or an exported model, or give input_ids, input_mask and segment_ids": (
        lambda f: predicted(classifier(f, "windows"), ["good"]),
        lambda f: predicted(classifier(f, "windows"), INPUTS),
    ),
    "but the encoder has 16 positions; reduce max_length": (
        lambda f: predicted(untrained(), preprocessor(32)(LONG)),
        lambda f: predicted(untrained(), preprocessor(16)(LONG)),
    ),
    "or use an encoder with more positions": (
        lambda f: predicted(untrained(), preprocessor(32)(LONG)),
        lambda f: predicted(untrained(max_positions=32), preprocessor(32)(LONG)),
    ),
    "a causal encoder attends only to itself; pretrain a BertMaskedLM": (
        lambda f: BertPretrainer(CAUSAL),
        lambda f: BertMaskedLM(CAUSAL),
    ),
    "batch it: dataset.batch(32)": (
        lambda f: predicted(classifier(f, "classifier"), texts(["good"])),
        lambda f: predicted(classifier(f, "classifier"), texts(["good"]).batch(32)),
    ),
    "expected ((text, text_pair), label)": (
        lambda f: fitted(f, texts((["good"], ["film"])).batch(1)),
        lambda f: fitted(f, texts(((["good"], ["film"]), [1])).batch(1)),
    ),
    "or ((text, text_pair),) without labels": (
        lambda f: predicted(classifier(f, "classifier"), texts((["good"], ["film"])).batch(1)),
        lambda f: predicted(classifier(f, "classifier"), texts(((["good"], ["film"]),)).batch(1)),
    ),
    "(give pairs of texts as a tuple of two lists)": (
        lambda f: predicted(classifier(f, "classifier"), [("good", "film")]),
        lambda f: predicted(classifier(f, "classifier"), (["good"], ["film"])),
    ),
    "texts is the string 'good'; expected a list of strings": (
        lambda f: encode(TOKENIZER, "good", max_length=8),
        lambda f: encode(TOKENIZER, ["good"], max_length=8),
    ),
    "rename the second to [unusedN]": (
        lambda f: Vocabulary((*SPECIAL_TOKENS, "good", "good", "film")),
        lambda f: Vocabulary((*SPECIAL_TOKENS, "good", "[unused7]", "film")),
    ),
    "write only the token on this line, or [unusedN]": (
        lambda f: Vocabulary((*SPECIAL_TOKENS, "good 1", "")),
        lambda f: Vocabulary((*SPECIAL_TOKENS, "good", "[unused1]")),
    ),
}


@pytest.mark.parametrize("remedy", CASES)
def test_the_remedy_of_an_error_succeeds(folders, remedy):
    refused, corrected = CASES[remedy]
    with pytest.raises(InputError, match=re.escape(remedy)):
        refused(folders)
    assert corrected(folders) is not None


@pytest.mark.slow  # imports keras_hub
def test_the_encoder_of_a_model_without_counterpart_is_converted():
    model = BertQuestionAnswering(CONFIG)
    with pytest.raises(InputError, match=r"to_keras_hub\(model\.encoder\)"):
        to_keras_hub(model)
    assert to_keras_hub(model.encoder) is not None
