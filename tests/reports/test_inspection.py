"""`bert-keras inspect`: the page contains the values of the model, and a browser shows them."""

import dataclasses
import functools
import html
import re
import shlex

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.downstream.task import softmax
from bert_keras.models import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertSentenceEncoder,
)
from bert_keras.models.pretrained import save_model
from bert_keras.reports.inspection import MAX_TOKENS, STEPS, inspect_texts
from bert_keras.reports.neighbours import similarity_order
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.browser import browser_page
from tests.inspected import data_of, weights_of

WORDS = ("the", "bank", "of", "a", "river", "lend", "##s", "##er", "money", "muddy", *".,<>/'b")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
TOKENIZER = WordPieceTokenizer(VOCABULARY)
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=24,
    num_layers=2,
    num_heads=4,
    max_positions=200,
    initializer_stddev=0.4,
)
MODELS = {
    "encoder": BertEncoder,
    "sentence-encoder": BertSentenceEncoder,
    "pretrainer": BertPretrainer,
    "masked-lm": BertMaskedLM,
    "classifier": lambda config: BertClassifier(config, num_labels=2),
}
TEXT = "The bank of the river lends."
UNSAFE = "</script><script>document.title='broken'</script>{{data}} bank"
SENTENCES = ["A muddy bank.", "The bank lends money, the bank of a lender.", "Bank of a river."]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of models by name, and the models."""
    folder, models = tmp_path_factory.mktemp("models"), {}
    keras.utils.set_random_seed(1)
    for name, make in MODELS.items():
        model = make(CONFIG)
        if not model.built:
            model.build()
        metadata = ModelMetadata(
            model=type(model).__name__,
            config=CONFIG,
            lowercase=True,
            max_length=190,
            labels=("no", "yes") if name == "classifier" else (),
        )
        save_model(model, folder / name, metadata=metadata, vocabulary=VOCABULARY)
        models[name] = folder / name, model
    return models


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
    ("word", "spans"),
    [
        ("bank", [(0, "bank"), (1, "bank"), (1, "bank"), (2, "Bank")]),
        ("of a", [(1, "of a"), (2, "of a")]),
    ],
)
def test_cosines_of_a_word(page_of, folders, tmp_path, word, spans):
    lines = [each for each in SENTENCES if word in each.lower()]
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(lines), "utf-8")
    data = page_of("masked-lm", word=word, sentences=path)
    assert "attention" not in data and "masked" not in data
    near, vectors = data["neighbours"], []
    for line in lines:
        inputs = inputs_of(line)
        names = [VOCABULARY.tokens[each] for each in inputs["input_ids"][0]]
        states = folders["masked-lm"][1].encoder.states(inputs).hidden_states
        for at in range(len(names)):
            if names[at : at + len(word.split())] == word.split():
                subwords = [np.asarray(each)[0, at : at + len(word.split())] for each in states]
                vectors.append(np.mean(subwords, axis=1))
    vectors = np.stack(vectors, axis=1)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    expected = vectors @ vectors.transpose(0, 2, 1)
    np.testing.assert_allclose(near["cosines"], expected, atol=1e-4)
    assert expected.min() < 0.95
    assert near["num_tokens"] == len(word.split())
    occurrences = near["occurrences"]
    assert [
        (SENTENCES.index(lines[each["line"] - 1]), each["word"]) for each in occurrences
    ] == spans
    for each in occurrences:
        assert each["before"] + each["word"] + each["after"] == lines[each["line"] - 1]
    assert [sorted(each) for each in near["orders"]] == [[*range(len(spans))]] * 3


def test_a_part_of_a_longer_word_is_no_occurrence(page_of, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("lend lends lender lend\n", "utf-8")
    near = page_of("encoder", word="lend", sentences=path)["neighbours"]
    assert [each["before"] for each in near["occurrences"]] == ["", "lend lends lender "]
    assert near["occurrences"][0]["after"] == " lends lender lend"


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
    (tmp_path / "lines.txt").write_text("work, works and a work\nnetwork work.\n", "utf-8")
    inspect_texts(
        tmp_path / "model",
        ["The license [MASK].", "Any work."],
        output=tmp_path / "page.html",
        word="work",
        sentences=tmp_path / "lines.txt",
    )
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
    occurrences = data["neighbours"]["occurrences"]
    assert [(each["before"], each["word"]) for each in occurrences] == [
        ("", "work"),
        ("work, works and a ", "work"),
        ("network ", "work"),
    ]


@pytest.mark.parametrize("num_segments", [0, 1])
def test_a_model_without_a_second_segment_shows_a_pair(tmp_path, num_segments):
    encoder = BertEncoder(dataclasses.replace(CONFIG, num_segments=num_segments))
    encoder.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    page = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "model"), "money", "bank", "-o", str(page)]) == 0
    assert data_of(page)["attention"]["texts"] == [0, 0, 0, 1, 1]


def test_similar_vectors_are_next_to_each_other():
    group = np.array([0, 1, 0, 1, 1, 0])
    cosines = np.where(group[:, None] == group, 0.9, 0.2) + 0.1 * np.eye(6)
    assert "".join(map(str, group[similarity_order(cosines)])) in ("000111", "111000")


def test_the_page_loads_no_other_files_and_escapes_texts(folders, tmp_path):
    output = tmp_path / "new" / "page.html"
    (tmp_path / "lines.txt").write_text(f"{UNSAFE}\n{UNSAFE}\n", "utf-8")
    inspect_texts(
        folders["pretrainer"][0],
        [UNSAFE],
        output=output,
        word="bank",
        sentences=tmp_path / "lines.txt",
    )
    page = output.read_text("utf-8")
    assert not re.search(r"https?://|src=|@import|url\(|\bfetch\(|\bimport\(", page)
    assert "default-src 'none'" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert data_of(output)["neighbours"]["occurrences"][0]["before"] == UNSAFE.removesuffix("bank")
    assert html.escape(str(folders["pretrainer"][0])) in page


LONG = " ".join(["money"] * MAX_TOKENS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{folder}", "there is nothing to show; give a text"),
        ("{folder} a b money", "received 3 texts; expected one text or a pair"),
        ("{folder} money ' '", "the text ' ' contains no word"),
        (f"{{folder}} '{LONG}'", f"has {MAX_TOKENS + 2} tokens, with [CLS] and [SEP]"),
        ("{folder} money --top-k 0", "tokens to show is 0; expected at least 1"),
        ("{folder} money --word bank", "and a file a word; give both or none"),
        ("{folder} money --sentences {tmp}/banks.txt", "and a file a word; give both or none"),
        ("{folder} --word bank --sentences {tmp}/none.txt", "does not exist; expected a file"),
        ("{folder} --word river --sentences {tmp}/banks.txt", "line 1 does not contain 'river'"),
        ("{folder} --word zebra --sentences {tmp}/banks.txt", "no tokens for 'zebra'"),
        ("{folder} --word ' ' --sentences {tmp}/banks.txt", "no tokens for ' '"),
        ("{folder} --word muddy --sentences {tmp}/one.txt", "1 time; expected 2 to 100"),
        ("{folder} --word muddy --sentences {tmp}/many.txt", "101 times; expected 2 to 100"),
        ("{folder} --word muddy --sentences {tmp}/long.txt", "line 2 has 189 tokens; expected"),
        ("{tmp} money", "contains no known checkpoint"),
        ("{tmp}/nowhere money", "does not exist"),
    ],
)
def test_wrong_arguments_are_refused(folders, tmp_path, capsys, arguments, message):
    folder, _ = folders["encoder"]
    (tmp_path / "banks.txt").write_text("\n".join(SENTENCES), "utf-8")
    (tmp_path / "one.txt").write_text("A muddy bank.\n", "utf-8")
    (tmp_path / "many.txt").write_text("A muddy bank.\n" * 101, "utf-8")
    (tmp_path / "long.txt").write_text("muddy\n" + "muddy " * 189, "utf-8")
    arguments = shlex.split(arguments.format(folder=folder, tmp=tmp_path))
    assert main(["inspect", *arguments, "-o", str(tmp_path / "page.html")]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert printed.err.startswith("bert-keras inspect: ")
    assert not (tmp_path / "page.html").exists()


def test_a_folder_as_output_and_a_model_without_a_vocabulary_are_refused(folders, tmp_path, capsys):
    folder, model = folders["encoder"]
    assert main(["inspect", str(folder), "money", "-o", str(tmp_path)]) == 2
    assert "is a folder; name a file to write" in capsys.readouterr().err
    metadata = ModelMetadata(model="BertEncoder", config=CONFIG, lowercase=True, max_length=190)
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=None)
    assert main(["inspect", str(tmp_path / "model"), "money", "-o", str(tmp_path / "p.html")]) == 2
    assert "has no vocabulary" in capsys.readouterr().err


def test_the_command_prints_the_path_of_the_page(folders, tmp_path, capsys):
    folder, _ = folders["pretrainer"]
    output = tmp_path / "page.html"
    assert main(["inspect", str(folder), "a [MASK]", "-o", str(output), "--top-k", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page: {output}"
    data = data_of(output)
    assert len(data["masked"]["predictions"][0]["top"]) == 3


def press_key(page, name, code):
    for kind in ("keyDown", "keyUp"):
        page._call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                   windowsVirtualKeyCode=code)  # fmt: skip


def choose(page, element, value):
    page.run(f"{{ const box = document.getElementById('{element}'); box.value = '{value}'; "
             "box.dispatchEvent(new Event('change')); }")  # fmt: skip


def point_at_the_last_cell(page):
    """Moves the pointer to the last cell of the map and returns its opacity, 0 to 255."""
    x, y, opacity = page.run("""(() => {
      const map = document.getElementById("map"), from = 6 * (devicePixelRatio || 1);
      map.scrollIntoView({block: "center"});
      const {right, bottom} = map.getBoundingClientRect();
      return [right - 6, bottom - 6, map.getContext("2d").getImageData(
        map.width - from, map.height - from, 1, 1).data[3]];
    })()""")
    page._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return opacity


def percent(fraction):
    digits = 1 if fraction < 0.0995 else 0
    return "< 0.1 %" if 0 < fraction < 0.0005 else f"{100 * fraction:.{digits}f} %"


@pytest.mark.slow
def test_a_browser_shows_the_page_and_keys_select_maps_and_tokens(folders, tmp_path):
    output, lines = tmp_path / "page.html", tmp_path / "lines.txt"
    lines.write_text("\n".join([*SENTENCES, UNSAFE]), "utf-8")
    inspect_texts(
        folders["pretrainer"][0],
        ["The bank of the [MASK].", UNSAFE],
        output=output,
        word="bank",
        sentences=lines,
    )
    data = data_of(output)
    weights, tokens = weights_of(data), data["attention"]["tokens"]
    last = len(tokens) - 1
    with browser_page(width=1200, height=900) as page:
        page.open(output.as_uri())
        text = page.wait_for("Attention", "Masked words", "“bank” in 4 sentences")
        assert "BertPretrainer: 2 layers of 4 heads, hidden size 24" in text
        assert "The second text follows the first with a probability of" in text
        assert percent(data["masked"]["predictions"][0]["top"][0][1]) in text
        assert page.run("document.querySelectorAll('#grid button').length") == 10  # with the means
        # Tab reaches the grid once; the arrow keys choose the next map in a row or column.
        page.run("document.querySelector('#grid button[tabindex=\"0\"]').focus()")
        press_key(page, "Home", 36)
        press_key(page, "ArrowDown", 40)
        page.wait_for("Layer 2, mean of the heads: a token attends on average to")
        press_key(page, "ArrowRight", 39)
        press_key(page, "ArrowRight", 39)
        page.wait_for("Layer 2, head 2: a token attends on average to")
        assert page.run("[document.activeElement.dataset.layer, document.activeElement.title]") == [
            "2",
            "layer 2, head 2",
        ]
        opacity = point_at_the_last_cell(page)
        page.wait_for(f"{tokens[-1]} ({last}) attends to {tokens[-1]} ({last}): "
                      f"{weights[1, 1, -1, -1]:.4f}")  # fmt: skip
        assert opacity == pytest.approx(255 * weights[1, 1, -1, -1] / weights[1, 1].max(), abs=2)
        page._call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
        assert page.run("document.getElementById('tip').hidden")
        page.run("document.querySelector('#tokens button[value=\"1\"]').focus()")
        press_key(page, "ArrowRight", 39)
        row = weights[1, 1, 2]
        best = int(row.argmax())
        page.wait_for(f"bank (2) attends to {tokens[best]} {percent(row[best])}")
        choose(page, "side", "column")
        column = weights[1, 1, :, 2]
        best = int(column.argmax())
        page.wait_for(f"is attended to by {tokens[best]} {percent(column[best])}")
        choose(page, "among", "across")
        choose(page, "head", "0")
        page.wait_for("bank (2) is not among the shown tokens", "mean of the heads")
        choose(page, "side", "row")
        cosines = np.array(data["neighbours"]["cosines"][0])
        choose(page, "depth", "0")
        choose(page, "order", "nearest")
        page.run("document.querySelector('#near input[value=\"3\"]').click()")
        lines_shown = page.run(
            "[...document.querySelectorAll('#near tbody tr')].map(row => "
            "+row.querySelector('input').value)"
        )
        assert lines_shown == sorted(range(5), key=lambda each: -cosines[3, each])
        page.picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 20_000
        assert page.run("document.title") == f"Inspection of {folders['pretrainer'][0]}"


@pytest.mark.slow
def test_a_browser_shows_the_least_probable_token_first(folders, tmp_path):
    output = tmp_path / "page.html"
    inspect_texts(folders["masked-lm"][0], [TEXT], output=output, num_tokens=2)
    predictions = data_of(output)["masked"]["predictions"]
    least = min(predictions, key=lambda each: each["original"][1])
    with browser_page(width=500, height=800) as page:
        page.open(output.as_uri())
        text = page.wait_for(f"Predictions for {least['original'][0]} ({least['position']})")
        assert f"rank {least['original'][2]}" in text
        page.run("document.querySelector('#masked button').focus()")
        page.wait_for(f"Predictions for {predictions[0]['original'][0]} (1)")
        assert page.run("document.getElementById('neighbours').hidden")
        assert page.run("document.documentElement.scrollWidth") <= 500


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
