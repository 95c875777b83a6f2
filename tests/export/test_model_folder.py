import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.card import ModelCard
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.export import model_folder
from bert_keras.export.model_folder import export_model
from bert_keras.models import (
    BertClassifier,
    BertEncoder,
    BertFeatureTagger,
    BertMultipleChoice,
    BertPretrainer,
    BertQuestionAnswering,
    BertTokenClassifier,
)
from bert_keras.models.pretrained import save_model
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_PIECES, "no", "yes", "x")))
CONFIG = BertConfig(vocab_size=8, hidden_size=8, num_layers=1, num_heads=2, max_positions=16)


@pytest.fixture
def foreign(tmp_path):
    keras.utils.set_random_seed(1)
    model = BertClassifier(CONFIG, num_labels=2)
    model.save_pretrained(tmp_path / "theirs", format="huggingface", tokenizer=TOKENIZER)
    return tmp_path / "theirs"


def test_a_foreign_classifier_is_exported(tmp_path, foreign, not_verified):
    written = export_model(foreign, tmp_path / "name" / "1", num_texts=2)
    signature = tf.saved_model.load(str(written)).signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == {"text", "text_pair"}
    answer = signature(text=tf.constant(["yes"]), text_pair=tf.constant(["yes"]))
    assert answer["labels"].numpy().tolist() == [[b"LABEL_0", b"LABEL_1"]]


def test_a_foreign_classifier_is_of_one_text(tmp_path, foreign, monkeypatch):
    monkeypatch.setattr(
        model_folder, "write_saved_model", lambda *_, make, **__: make.keywords["num_texts"]
    )
    assert export_model(foreign, tmp_path / "name" / "1") == 1


@pytest.mark.slow
def test_a_number_of_long_texts_is_exported_as_it_was_trained(tmp_path, assert_frozen):
    keras.utils.set_random_seed(1)
    card = ModelCard(
        model="BertClassifier",
        config=CONFIG,
        lowercase=True,
        max_length=8,
        labels=("stars",),
        text_columns=("review",),
        problem_type="regression",
        task={"name": "regression", "long_texts": "max", "stride": 4},
    )
    model = BertClassifier.from_card(card)
    save_model(model, tmp_path / "ours", card=card, vocabulary=TOKENIZER.vocabulary)
    written = export_model(tmp_path / "ours", tmp_path / "name" / "1")
    assert_frozen("regression_of_windows", written)
    signature = tf.saved_model.load(str(written)).signatures["serving_default"]
    answer = signature(text=tf.constant(["yes", "no " * 6 + "yes " * 3]))
    windows = ["yes", "no " * 6, "no no yes yes yes"]  # of 6 pieces, 4 apart
    ids = TOKENIZER.ids_batch(windows)
    scores = model(pack(ids, vocabulary=TOKENIZER.vocabulary, max_length=8)).numpy()[:, 0]
    assert list(answer) == ["score"]
    expected = [scores[0], max(scores[1:])]
    np.testing.assert_allclose(answer["score"].numpy(), expected, atol=1e-5)


@pytest.mark.slow  # the other tests of a head ask its export in their own process
@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        (BertClassifier, {"label", "labels", "probabilities"}),
        (BertEncoder, {"embedding", "pooled"}),
        (BertMultipleChoice, {"choice", "probabilities"}),
        (BertPretrainer, {"pieces", "probabilities"}),
        (BertQuestionAnswering, {"answer", "start", "end", "score", "no_answer_score"}),
        (BertTokenClassifier, {"entities", "starts", "ends", "labels", "scores"}),
    ],
)
def test_every_head_answers_in_a_fresh_process(tmp_path, verified_freshly, kind, outputs):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(CONFIG, max_positions=128)  # room for a question and a passage
    model = kind(
        config, **({"num_labels": 3} if kind in (BertClassifier, BertTokenClassifier) else {})
    )
    model.save_pretrained(tmp_path / "ours", tokenizer=TOKENIZER)
    written = export_model(tmp_path / "ours", tmp_path / "name" / "1")
    signatures = tf.saved_model.load(str(written)).signatures
    assert set(signatures["serving_default"].structured_outputs) == outputs
    assert {"tensors", "examples"} <= set(signatures)


def test_what_cannot_be_exported_is_told(tmp_path):
    tagger = BertFeatureTagger(CONFIG, num_labels=2, layers="last", lstm_units=2)
    tagger.save_pretrained(tmp_path / "tagger", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="holds a BertFeatureTagger; expected one of BertClassif"):
        export_model(tmp_path / "tagger", tmp_path / "name" / "1")
    BertEncoder(CONFIG).save_pretrained(tmp_path / "encoder", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="a BertEncoder; the number of texts is a classifier's"):
        export_model(tmp_path / "encoder", tmp_path / "name" / "1", num_texts=2)
    BertClassifier(CONFIG, num_labels=2).save_pretrained(tmp_path / "bare")
    with pytest.raises(
        InputError,
        match=r"bare comes without a vocabulary; put the vocab.txt or tokenizer.json there",
    ):
        export_model(tmp_path / "bare", tmp_path / "name" / "1")
