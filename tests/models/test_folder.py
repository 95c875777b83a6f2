import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertPretrainer
from bert_keras.models.folder import (
    WEIGHTS,
    ModelCard,
    load_model,
    load_weights,
    read_card,
    read_tokenizer,
    read_vocabulary,
    save_model,
)
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, *"abcdefghij"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
)
CARD = ModelCard(
    model="BertClassifier",
    config=CONFIG,
    lowercase=False,
    max_length=12,
    text_columns=("question", "answer"),
    labels=("no", "yes", "perhaps"),
)


@pytest.fixture
def pretrained(tmp_path):
    keras.utils.set_random_seed(1)
    card = ModelCard(model="BertPretrainer", config=CONFIG, lowercase=False, max_length=12)
    return save_model(BertPretrainer(CONFIG), tmp_path / "pre", card=card, vocabulary=VOCABULARY)


def test_round_trip(tmp_path):
    model = BertClassifier(CONFIG, num_labels=3)
    folder = save_model(model, tmp_path / "model", card=CARD, vocabulary=VOCABULARY)
    assert read_card(folder) == CARD
    assert read_vocabulary(folder) == VOCABULARY
    assert read_tokenizer(folder).lowercase is False
    again = load_model(folder)
    for ours, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    twin = save_model(again, tmp_path / "twin", card=CARD, vocabulary=VOCABULARY)
    assert (twin / WEIGHTS).read_bytes() == (folder / WEIGHTS).read_bytes()


def test_a_classifier_takes_the_encoder_of_a_pretrainer(pretrained):
    model = BertClassifier(CONFIG, num_labels=3)
    report = load_weights(model, pretrained)
    assert str(report) == (
        "23 weights loaded (encoder); new: classification; left over: masked_lm, next_sentence"
    )
    stored = load_file(pretrained / WEIGHTS)
    np.testing.assert_array_equal(stored["encoder/embeddings/token"], model.encoder.token_table)


def test_weights_that_do_not_fit_are_all_named_and_nothing_is_loaded(pretrained):
    stored = load_file(pretrained / WEIGHTS)
    del stored["encoder/pooler/bias"]
    stored["encoder/embeddings/segment"] = np.zeros((3, 8), "float32")
    stored["encoder/layer_1/attention/query/bias"] = np.zeros(8, "float32")
    save_file(stored, pretrained / WEIGHTS)
    model = BertClassifier(CONFIG, num_labels=3)
    before = model.get_weights()
    with pytest.raises(InputError) as error:
        load_weights(model, pretrained)
    assert "encoder/pooler/bias is missing" in str(error.value)
    assert "encoder/embeddings/segment is (3, 8), expected (2, 8)" in str(error.value)
    assert "encoder/layer_1/attention/query/bias is unexpected" in str(error.value)
    for ours, theirs in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_damaged_folders_are_told(pretrained, tmp_path):
    with pytest.raises(InputError, match=r"nothing/bert_keras.json does not exist"):
        load_model(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"holds no bert_keras.json; expected a folder that"):
        load_model(tmp_path)
    weights = pretrained / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"weights.safetensors is damaged"):
        load_model(pretrained)
    (pretrained / "bert_keras.json").write_text('{"model": "BertPretrainer"}')
    with pytest.raises(InputError, match=r"is not a model card"):
        load_model(pretrained)


def test_cards_are_checked():
    with pytest.raises(InputError, match=r"max_length is 17; expected 3 to 16"):
        ModelCard(model="BertPretrainer", config=CONFIG, lowercase=True, max_length=17)
    with pytest.raises(InputError, match=r"no model is called 'Bert'"):
        ModelCard(model="Bert", config=CONFIG, lowercase=True, max_length=12)
