"""The page of `bert-keras inspect`: its numbers are those of the model, and a browser shows it."""

import base64
import dataclasses
import html
import json
import re

import keras
import numpy as np
import pytest

from bert_keras import BertClassifier, BertEncoder, BertMaskedLM, BertPretrainer
from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
from bert_keras.cli import main
from bert_keras.kinds.kind import softmax
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.runs.inspection import STEPS, inspect_texts
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.browser import browser_page
from tests.factories import tiny_config, tiny_vocabulary

VOCABULARY = tiny_vocabulary()
TOKENIZER = WordPieceTokenizer(VOCABULARY)
CONFIG = tiny_config(hidden_size=24, num_heads=4, max_positions=200, initializer_stddev=0.4)
MODELS = {
    "encoder": BertEncoder,
    "sentence-encoder": BertSentenceEncoder,
    "pretrainer": BertPretrainer,
    "masked-lm": BertMaskedLM,
    "classifier": lambda config: BertClassifier(config, num_labels=2),
}
TEXT, OTHER = "The bank was the rivers.", "A good film."
UNSAFE = "</script><script>document.title='broken'</script>{{data}} bank"


def data_of(page) -> dict:
    """Returns the data of a page."""
    text = page.read_text("utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(data)


def weights_of(data: dict) -> np.ndarray:
    """Returns the attention probabilities, float [L, N, T, T]."""
    attention, size = data["attention"], len(data["attention"]["tokens"])
    steps = np.frombuffer(base64.b64decode(attention["weights"]), "<u2")
    shape = data["num_layers"], data["num_heads"], size, size
    return steps.reshape(shape) / attention["steps"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of each model, and the model."""
    folder = tmp_path_factory.mktemp("models")
    keras.utils.set_random_seed(1)
    models = {name: make(CONFIG) for name, make in MODELS.items()}
    for name, model in models.items():
        labels = ("no", "yes") if name == "classifier" else ()
        model.save_pretrained(folder / name, tokenizer=TOKENIZER, labels=labels)
    return {name: (folder / name, model) for name, model in models.items()}


@pytest.fixture
def page_of(folders, tmp_path):
    def page_of(name, *texts, **options):
        inspect_texts(folders[name][0], texts, output=tmp_path / "page.html", **options)
        return data_of(tmp_path / "page.html")

    return page_of


def inputs_of(*texts):
    ids = [[TOKENIZER.encode(text).ids] for text in texts]
    return pack(*ids, vocabulary=VOCABULARY, max_length=190)


@pytest.mark.parametrize(
    ("name", "texts"), [("encoder", (TEXT,)), ("masked-lm", (TEXT,)), ("classifier", (TEXT, OTHER))]
)
def test_attention_equals_that_of_the_encoder(page_of, folders, name, texts):
    data, model = page_of(name, *texts), folders[name][1]
    weights, inputs = weights_of(data), inputs_of(*texts)
    states = getattr(model, "encoder", model).states(inputs)
    expected = np.stack([np.asarray(each)[0] for each in states.attentions])
    np.testing.assert_allclose(weights, expected, rtol=0, atol=0.51 / STEPS)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=weights.shape[-1] / STEPS)
    assert expected.std() > 0.05
    names = [VOCABULARY.tokens[each] for each in inputs["input_ids"][0]]
    assert data["attention"]["tokens"] == names and "##s" in names
    assert data["attention"]["texts"] == inputs["segment_ids"][0].tolist()
    assert (data["model"], data["num_layers"]) == (type(model).__name__, 2)
    if name != "masked-lm":
        assert data["masked"] == {"missing": type(model).__name__}


@pytest.mark.parametrize("name", ["pretrainer", "masked-lm"])
def test_every_mask_of_a_text_is_predicted(page_of, folders, name):
    masked = page_of(name, "The [MASK] was the [MASK].", "[MASK] is.", num_tokens=4)["masked"]
    inputs, positions = inputs_of("the the was the the.", "the is."), [2, 5, 8]
    inputs["input_ids"][0, positions] = VOCABULARY.mask_id
    logits = folders[name][1]({**inputs, "masked_lm_positions": np.array([positions])})
    probabilities = softmax(np.asarray(logits["masked_lm"])[0])
    assert [each["position"] for each in masked["predictions"]] == positions
    for each, expected in zip(masked["predictions"], probabilities, strict=True):
        best = np.argsort(-expected)[:4]
        assert [token for token, _ in each["top"]] == [VOCABULARY.tokens[i] for i in best]
        np.testing.assert_allclose([p for _, p in each["top"]], expected[best], rtol=1e-4)
        assert "original" not in each
    assert ("is_next" in masked) == (name == "pretrainer")
    if name == "pretrainer":
        is_next = softmax(np.asarray(logits["next_sentence"]))[0, 0]
        assert masked["is_next"] == pytest.approx(float(is_next), rel=1e-4)


def test_without_a_mask_each_token_is_masked_separately(page_of, folders):
    masked, inputs = page_of("masked-lm", TEXT)["masked"], inputs_of(TEXT)
    ids = inputs["input_ids"][0].copy()
    assert [each["position"] for each in masked["predictions"]] == list(range(1, len(ids) - 1))
    for each in masked["predictions"]:
        position = each["position"]
        inputs["input_ids"][0] = np.where(np.arange(len(ids)) == position, VOCABULARY.mask_id, ids)
        logits = folders["masked-lm"][1]({**inputs, "masked_lm_positions": np.array([[position]])})
        probabilities = softmax(np.asarray(logits["masked_lm"])[0, 0])
        token, probability, rank = each["original"]
        expected = probabilities[ids[position]]
        assert token == VOCABULARY.tokens[ids[position]] and len(each["top"]) == 10
        assert probability == pytest.approx(float(expected), rel=1e-4)
        assert rank == 1 + (probabilities > expected).sum()


@pytest.mark.parametrize("text", ["The [MASK] was a river.", "The bank was a river."])
def test_a_causal_model_predicts_a_token_at_the_preceding_position(tmp_path, text):
    model = BertMaskedLM(dataclasses.replace(CONFIG, is_causal=True))
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    inspect_texts(tmp_path / "model", [text], output=tmp_path / "page.html")
    first, *others = data_of(tmp_path / "page.html")["masked"]["predictions"]
    shown = first if "[MASK]" in text else others[0]
    logits = model({**inputs_of("The"), "masked_lm_positions": np.array([[1]])})["masked_lm"]
    best = softmax(np.asarray(logits)[0, 0])
    assert (shown["position"], shown["top"][0][0]) == (2, VOCABULARY.tokens[best.argmax()])
    assert shown["top"][0][1] == pytest.approx(float(best.max()), rel=1e-4)


@pytest.mark.parametrize(
    ("family", "changes", "pair"),
    [
        ("roberta", {"position_offset": 2, "num_segments": 1}, ["<s>0", "</s>0", "</s>1", "</s>1"]),
        ("albert", {"embedding_size": 12, "shares_layers": True}, ["[CLS]0", "[SEP]0", "[SEP]1"]),
    ],
)
def test_pages_of_relatives_show_their_tokens(subwords, tmp_path, family, changes, pair):
    vocabulary = rules_vocabulary(read_tokenizer_json(subwords[family], {}))
    tokenizer = tokenizer_of(vocabulary, lowercase=False)
    model = BertMaskedLM(dataclasses.replace(CONFIG, vocab_size=len(vocabulary), **changes))
    model.save_pretrained(tmp_path / "model", tokenizer=tokenizer)
    texts = ["The license [MASK].", "Any work."]
    inspect_texts(tmp_path / "model", texts, output=tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    shown = data["attention"]
    tokens = zip(shown["tokens"], shown["texts"], strict=True)
    special = {shown["cls"], shown["sep"]}
    assert sorted(f"{t}{text}" for t, text in tokens if t in special) == sorted(pair)
    (masked,) = data["masked"]["predictions"]
    assert shown["tokens"][masked["position"]] == vocabulary.tokens[vocabulary.mask_id]


def test_a_sentence_encoder_shows_its_embedding(page_of, folders):
    embedding = page_of("sentence-encoder", "a bank", "a river")["embedding"]
    model = folders["sentence-encoder"][1]
    model.tokenizer = TOKENIZER
    one, other = model.encode(["a bank", "a river"])
    assert embedding["summary"] == "mean pooling, scaled to length 1"
    assert embedding["cosine"] == pytest.approx(float(one @ other), abs=1e-5)
    assert page_of("sentence-encoder", "a bank")["embedding"]["cosine"] is None


def test_the_page_loads_no_other_files_and_escapes_texts(folders, tmp_path, capsys):
    output, folder = tmp_path / "new" / "page.html", str(folders["pretrainer"][0])
    assert main(["inspect", folder, UNSAFE, "-o", str(output), "--top-k", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page        {output}"
    page = output.read_text("utf-8")
    assert not re.search(r"https?://|src=|@import|url\(|\bfetch\(|\bimport\(", page)
    assert "default-src 'none'" in page and html.escape(folder) in page
    assert page.count("<script") == page.count("</script>") == 2
    assert len(data_of(output)["masked"]["predictions"][0]["top"]) == 3


@pytest.mark.slow
def test_a_browser_shows_the_page_and_keys_select_maps_and_tokens(folders, tmp_path):
    output = tmp_path / "page.html"
    inspect_texts(folders["pretrainer"][0], ["The bank was the [MASK].", UNSAFE], output=output)
    data = data_of(output)
    weights, tokens = weights_of(data), data["attention"]["tokens"]

    def press_key(name, code):
        for kind in ("keyDown", "keyUp"):
            key = {"key": name, "code": name, "windowsVirtualKeyCode": code}
            page.call("Input.dispatchKeyEvent", type=kind, **key)

    with browser_page(width=1200, height=900) as page:
        page.open(output.as_uri())
        text = page.wait_for("Attention", "Masked words")
        assert "BertPretrainer: 2 layers of 4 heads, hidden size 24" in text
        assert "The second text follows the first with a probability of" in text
        assert page.run("document.querySelectorAll('#grid button').length") == 10  # with the means
        # Tab reaches the grid once; the arrow keys choose the next map in a row or column.
        page.run("document.querySelector('#grid button[tabindex=\"0\"]').focus()")
        press_key("Home", 36)
        press_key("ArrowDown", 40)
        page.wait_for("Layer 2, mean of the heads: a token attends on average to")
        press_key("ArrowRight", 39)
        press_key("ArrowRight", 39)
        page.wait_for("Layer 2, head 2: a token attends on average to")
        page.run("document.querySelector('#tokens button[value=\"2\"]').focus()")
        page.wait_for(f"bank (2) attends to {tokens[int(weights[1, 1, 2].argmax())]} ")
        page.run("{ const box = document.getElementById('side'); box.value = 'column'; "
                 "box.dispatchEvent(new Event('change')); }")  # fmt: skip
        page.wait_for(f"is attended to by {tokens[int(weights[1, 1, :, 2].argmax())]} ")
        assert page.run("document.title") == f"Inspection of {folders['pretrainer'][0]}"
