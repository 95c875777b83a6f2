"""The values on the page of `bert-keras inspect` are those of the model."""

import dataclasses
import functools
import re

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_rules
from bert_keras.cli import main
from bert_keras.downstream.task import softmax
from bert_keras.models import BertEncoder, BertMaskedLM
from bert_keras.reports.inspection import STEPS, inspect_texts
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from bert_keras.text.packing import pack
from tests.inspected import data_of, weights_of
from tests.reports.conftest import CONFIG, TEXT, TOKENIZER, VOCABULARY


@pytest.fixture(scope="module")
def page_of(folders, tmp_path_factory):
    """Returns the data of the page of a model; pages with the same arguments are written once."""

    @functools.cache
    def page_of(name, *texts, **options):
        output = tmp_path_factory.mktemp("page") / "page.html"
        inspect_texts(folders[name][0], texts, output=output, **options)
        return data_of(output)

    return page_of


def inputs_of(*texts):
    ids = [[TOKENIZER.encode(text).ids] for text in texts]
    return pack(*ids, vocabulary=VOCABULARY, max_length=190)


def encoder_of(model):
    return model if isinstance(model, BertEncoder) else model.encoder


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("encoder", (TEXT,)),
        ("masked-lm", (TEXT,)),
        ("pretrainer", (TEXT, "Money, money.")),
        ("classifier", (TEXT, "Money, money.")),
    ],
)
def test_attention_equals_that_of_the_encoder(page_of, folders, name, texts):
    data = page_of(name, *texts)
    weights, inputs = weights_of(data), inputs_of(*texts)
    states = encoder_of(folders[name][1]).states(inputs)
    expected = np.stack([np.asarray(each)[0] for each in states.attentions])
    np.testing.assert_allclose(weights, expected, rtol=0, atol=0.51 / STEPS)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=weights.shape[-1] / STEPS)
    assert expected.std() > 0.05
    names = [VOCABULARY.tokens[each] for each in inputs["input_ids"][0]]
    assert data["attention"]["tokens"] == names and "##s" in names
    assert data["attention"]["texts"] == inputs["segment_ids"][0].tolist()
    assert (data["model"], data["num_layers"]) == (type(folders[name][1]).__name__, 2)


@pytest.mark.parametrize("name", ["pretrainer", "masked-lm"])
def test_every_mask_of_a_text_is_predicted(page_of, folders, name):
    masked = page_of(name, "The [MASK] of the [MASK].", "[MASK] lends.", num_tokens=4)["masked"]
    inputs, mask = inputs_of("the the of the the.", "the lends."), VOCABULARY.mask_id
    positions = [2, 5, 8]
    inputs["input_ids"][0, positions] = mask
    logits = folders[name][1]({**inputs, "masked_lm_positions": np.array([positions])})
    probabilities = softmax(np.asarray(logits["masked_lm"])[0])
    assert [each["position"] for each in masked["predictions"]] == positions
    for each, expected in zip(masked["predictions"], probabilities, strict=True):
        best = np.argsort(-expected)[:4]
        assert [token for token, _ in each["top"]] == [VOCABULARY.tokens[i] for i in best]
        np.testing.assert_allclose([p for _, p in each["top"]], expected[best], rtol=1e-4)
        assert "original" not in each
    if name == "pretrainer":
        is_next = softmax(np.asarray(logits["next_sentence"]))[0, 0]
        assert masked["is_next"] == pytest.approx(float(is_next), rel=1e-4)
    else:
        assert "is_next" not in masked


def test_without_a_mask_each_token_is_masked_separately(page_of, folders):
    masked = page_of("masked-lm", TEXT)["masked"]
    assert "is_next" not in masked
    inputs = inputs_of(TEXT)
    ids = inputs["input_ids"][0].copy()
    assert [each["position"] for each in masked["predictions"]] == list(range(1, len(ids) - 1))
    for each in masked["predictions"]:
        position = each["position"]
        inputs["input_ids"][0] = np.where(np.arange(len(ids)) == position, VOCABULARY.mask_id, ids)
        logits = folders["masked-lm"][1]({**inputs, "masked_lm_positions": np.array([[position]])})
        probabilities = softmax(np.asarray(logits["masked_lm"])[0, 0])
        token, probability, rank = each["original"]
        expected = probabilities[ids[position]]
        assert token == VOCABULARY.tokens[ids[position]]
        assert probability == pytest.approx(float(expected), rel=1e-4)
        assert rank == 1 + (probabilities > expected).sum()
        assert each["top"][0][1] == pytest.approx(float(probabilities.max()), rel=1e-4)
        assert len(each["top"]) == 10


@pytest.mark.parametrize("text", ["The [MASK] of a river.", "The bank of a river."])
def test_a_causal_model_predicts_a_token_at_the_preceding_position(tmp_path, text):
    model = BertMaskedLM(dataclasses.replace(CONFIG, is_causal=True))
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    inspect_texts(tmp_path / "model", [text], output=tmp_path / "page.html")
    first, *others = data_of(tmp_path / "page.html")["masked"]["predictions"]
    shown = first if "[MASK]" in text else others[0]
    assert shown["position"] == 2
    logits = model({**inputs_of("The"), "masked_lm_positions": np.array([[1]])})["masked_lm"]
    best = softmax(np.asarray(logits)[0, 0])
    assert shown["top"][0][0] == VOCABULARY.tokens[best.argmax()]
    assert shown["top"][0][1] == pytest.approx(float(best.max()), rel=1e-4)


def test_a_model_without_a_masked_lm_head_predicts_nothing(page_of):
    assert page_of("encoder", TEXT)["masked"] == {"missing": "BertEncoder"}
    pair = page_of("classifier", TEXT, "Money, money.")
    assert pair["masked"] == {"missing": "BertClassifier"}


@pytest.mark.parametrize(
    ("family", "changes", "pair"),
    [
        ("roberta", {"position_offset": 2, "num_segments": 1}, "<s>0 | </s>0</s>1 | </s>1"),
        ("albert", {"embedding_size": 12, "shares_layers": True}, "[CLS]0 | [SEP]0 | [SEP]1"),
    ],
)
def test_pages_of_relatives_show_their_tokens(subwords, tmp_path, family, changes, pair):
    vocabulary = rules_vocabulary(read_rules(subwords[family], {}))
    tokenizer = tokenizer_of(vocabulary, lowercase=False)
    model = BertMaskedLM(dataclasses.replace(CONFIG, vocab_size=len(vocabulary), **changes))
    model.save_pretrained(tmp_path / "model", tokenizer=tokenizer)
    texts = ["The license [MASK].", "Any work."]
    inspect_texts(tmp_path / "model", texts, output=tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    shown = data["attention"]
    specials = {shown["cls"], shown["sep"]}
    marked = [
        f"{token}{text}" if token in specials else ""
        for token, text in zip(shown["tokens"], shown["texts"], strict=True)
    ]
    assert re.sub(r"\s+", " ", "".join(each or " " for each in marked)).replace(" ", " | ") == pair
    (masked,) = data["masked"]["predictions"]
    assert shown["tokens"][masked["position"]] == vocabulary.tokens[vocabulary.mask_id]
    assert 0 < data["masked"].get("is_next", 0.5) < 1


@pytest.mark.parametrize("num_segments", [0, 1])
def test_a_model_without_a_second_segment_shows_a_pair(tmp_path, num_segments):
    encoder = BertEncoder(dataclasses.replace(CONFIG, num_segments=num_segments))
    encoder.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    page = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "model"), "money", "bank", "-o", str(page)]) == 0
    assert data_of(page)["attention"]["texts"] == [0, 0, 0, 1, 1]


def test_a_sentence_encoder_shows_its_embedding(folders, tmp_path):
    folder, model = folders["sentence-encoder"]
    inspect_texts(folder, ["a bank", "a river"], output=tmp_path / "page.html")
    embedding = data_of(tmp_path / "page.html")["embedding"]
    model.tokenizer = TOKENIZER
    one, other = model.encode(["a bank", "a river"])
    assert embedding["summary"] == "mean pooling, scaled to length 1"
    assert embedding["cosine"] == pytest.approx(float(one @ other), abs=1e-5)
    inspect_texts(folder, ["a bank"], output=tmp_path / "page.html")
    assert data_of(tmp_path / "page.html")["embedding"]["cosine"] is None
