"""Byte-level BPE and Unigram tokens in a graph equal those of the library `tokenizers`."""

import json
import random
import unicodedata
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
from bert_keras.errors import InputError
from bert_keras.exporting.text_ops.byte_pairs import BytePairs
from bert_keras.exporting.text_ops.text_to_inputs import MaskedTextToInputs, TextToInputs
from bert_keras.exporting.text_ops.unigrams import Unigrams
from bert_keras.kinds.words import tokenize_units
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary, write_vocabulary
from bert_keras.text.packing import ids_with_masks, pack
from tests.multilingual_texts import DECOMPOSED, SENTENCES
from tests.unicode_texts import CHARACTERS, TEXTS, characters_in_any_order, in_graphs

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
LICENSE = (Path(__file__).parents[3] / "LICENSE").read_text("utf-8").split("\n")
IN_GRAPH = dict.fromkeys(("roberta", "modernbert"), BytePairs)
IN_GRAPH |= dict.fromkeys(("albert", "xlm-roberta", "kobert"), Unigrams)

SLOW = pytest.param("kobert", marks=pytest.mark.slow)  # Unigrams, as the two kinds before it


@pytest.fixture(scope="module", params=[*(each for each in IN_GRAPH if each != "kobert"), SLOW])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def vocabulary(kind, subwords):
    return rules_vocabulary(read_tokenizer_json(subwords[kind], {}))


@pytest.fixture(scope="module")
def both(kind, vocabulary):
    """Returns functions texts -> ids and offsets, of the library and of a graph."""
    tokenizer, module = FastTokenizer(vocabulary), IN_GRAPH[kind](vocabulary)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def graph(text):
        tokens = module(text)
        texts = tokens.ids.value_rowids()
        spans = [tokens.source.in_text(each, texts) for each in (tokens.starts, tokens.ends)]
        return tokens.ids, tokens.ids.with_values(tf.stack(spans, axis=1))

    def in_graph(texts):
        ids, spans = graph(tf.constant(texts, tf.string, shape=[len(texts)]))
        spans = [[tuple(span) for span in row] for row in spans.to_list()]
        return list(zip(ids.to_list(), spans, strict=True))

    def offline(texts):
        return [(each.ids, each.offsets) for each in tokenizer.encode_batch(texts)]

    return offline, in_graph


def assert_equal(both, texts) -> None:
    texts = in_graphs(texts)
    offline, graph = (encode(texts) for encode in both)
    for text, expected, actual in zip(texts, offline, graph, strict=True):
        assert actual == expected, ascii(text)


def test_unicode_suite_and_real_text(both):
    assert_equal(both, [*SENTENCES, *DECOMPOSED])
    assert_equal(both, [*TEXTS, *LICENSE, "", "\n\n", "a" * 500, "  the  license ", "   "])
    assert_equal(both, ["", "a <|endoftext|> b<|padding|>'s", "<|padding|<|endoftext|>"])  # added
    assert_equal(both, [])


@pytest.mark.parametrize("step", [101, pytest.param(23, marks=pytest.mark.slow)])
def test_every_character(both, step):
    """The letters around a character show whether it is dropped, a space or part of a word."""
    assert_equal(both, [f"a{character}B {character}" for character in CHARACTERS[::step]])
    assert_equal(both, [f"{character}1{character}!" for character in CHARACTERS[:1500]])


def test_characters_in_any_order(both):
    assert_equal(both, characters_in_any_order(3000))
    rng = random.Random(1)
    characters = [*" '`\n\t\u00a0\u3000\x1c", *"stmdrev", *"aB1²!?.é中\u0301😀"]
    assert_equal(both, ["".join(rng.choices(characters, k=rng.randrange(14))) for _ in range(3000)])


def test_words_of_very_different_lengths(both):
    word = "".join("".join(LICENSE).split())[:3000]
    assert_equal(both, [word, "a", f"{word[:700]} {word[700:1400]}", "", word[1000:1003]])
    # Unigrams divides longer words, which changes only the tokens at the end of a part.
    (expected, _), (ids, spans) = (encode([3 * word])[0] for encode in both)
    assert ids[:1000] == expected[:1000]
    assert [0, *(end for _, end in spans)] == [*(start for start, _ in spans), 9000]


def test_marks_and_letters_that_compose_them_in_any_order(both):
    rng = random.Random(2)
    composed = [each for each in CHARACTERS if unicodedata.decomposition(each)[:1] not in ("", "<")]
    hangul = [chr(rng.randrange(0xAC00, 0xD7A4)) for _ in range(99)]
    marks = [each for each in CHARACTERS if unicodedata.combining(each)]
    parts = sorted(set("".join(unicodedata.normalize("NFD", e) for e in (*composed, *hangul))))
    kinds = [composed, hangul, marks, parts, parts, list("ae \t'")]
    texts = [[rng.choice(rng.choice(kinds)) for _ in range(rng.randrange(9))] for _ in range(2000)]
    assert_equal(both, ["".join(letters) for letters in texts])


def test_a_space_before_each_text_changes_ids_and_has_no_offsets(subwords, tmp_path):
    rules = read_tokenizer_json(subwords["roberta"], {"add_prefix_space": True})
    file = write_vocabulary(rules_vocabulary(rules), tmp_path)
    reader = TextToInputs(file, lowercase=False, max_length=9)
    texts = [*in_graphs(TEXTS), "a", " a", "\na", "\u00a0a", ""]
    ids = tf.function(reader.tokens, autograph=False)(tf.constant(texts)).to_list()
    assert ids == FastTokenizer(reader.vocabulary).ids_batch(texts)
    with pytest.raises(InputError):
        reader.check_has_offsets()


def test_invalid_utf8_bytes_are_dropped(both):
    _, graph = both
    assert graph([b"\xff a\xff\xc3b"]) == graph([b" ab"])


def test_a_graph_refers_to_the_trie(subwords):
    """With a constant for each use, the graph of 250,002 tokens had 98 MB."""
    module = Unigrams(rules_vocabulary(read_tokenizer_json(subwords["xlm-roberta"], {})))
    spec = tf.TensorSpec([None], tf.string)
    graph = tf.function(module.__call__, autograph=False).get_concrete_function(spec).graph
    constants = [node for node in graph.as_graph_def().node if node.op == "Const"]
    shapes = [tf.make_ndarray(node.attr["value"].tensor).shape for node in constants]
    assert shapes and module.tree.scores.shape not in shapes


@pytest.mark.parametrize("max_length", [9, pytest.param(40, marks=pytest.mark.slow)])
def test_packed_inputs_equal_offline_inputs(vocabulary, tmp_path, max_length):
    file = write_vocabulary(vocabulary, tmp_path)
    reader = TextToInputs(file, lowercase=False, max_length=max_length)
    tokenizer = FastTokenizer(vocabulary)
    first_texts, second_texts = LICENSE[:40], LICENSE[40:80]
    for texts in ((first_texts,), (first_texts, second_texts)):
        ids = [tokenizer.ids_batch(each) for each in texts]
        expected = pack(*ids, vocabulary=vocabulary, max_length=max_length)
        inputs = {name: each.numpy() for name, each in reader(*map(tf.constant, texts)).items()}
        np.testing.assert_equal(inputs, expected)


def test_each_family_has_its_own_mask_token(vocabulary, tmp_path):
    file = write_vocabulary(vocabulary, tmp_path)
    reader = MaskedTextToInputs(file, lowercase=False, max_length=9)
    texts = ["the [MASK] license", "[MASK]", "no mask", ""]
    expected = ids_with_masks(texts, FastTokenizer(vocabulary))
    assert reader.tokens(tf.constant(texts)).to_list() == expected


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("modernbert", ("normalizer", "type"), "NFKC"),
        ("modernbert", ("added_tokens", 0, "lstrip"), True),
        ("modernbert", ("pre_tokenizer", "add_prefix_space"), True),
        ("roberta", ("model", "merges"), [["a", "bc"], ["b", "c"]]),
        ("albert", ("normalizer", "normalizers", 2, "type"), "NFKC"),
        ("albert", ("normalizer", "normalizers", 0, "content"), "'"),
        ("albert", ("pre_tokenizer",), METASPACE),
        ("albert", ("added_tokens", 4, "content"), "<e1>"),
    ],
)
def test_unsupported_rules_are_refused(subwords, kind, path, value):
    rules = json.loads(read_tokenizer_json(subwords[kind], {}))
    if kind == "roberta":
        rules["model"]["vocab"] |= {"bc": 400, "abc": 401}
    reduce(lambda values, part: values[part], path[:-1], rules)[path[-1]] = value
    with pytest.raises(InputError):
        IN_GRAPH[kind](rules_vocabulary(json.dumps(rules)))


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["word", "eojeol", "token"])
def test_units_equal_those_of_evaluation(vocabulary, tmp_path, unit):
    reader = TextToInputs(write_vocabulary(vocabulary, tmp_path), lowercase=True, max_length=9)
    rng = random.Random(4)
    characters = [*"    \n\t\u00a0\u3000\x1c\u200b", *"aB1?한\u0301"]
    texts = ["".join(rng.choices(characters, k=rng.randrange(14))) for _ in range(500)]
    texts += ["", *in_graphs(TEXTS), "\u0301 a\u0301, b-c", *LICENSE[:30], ""]
    units = tf.function(partial(reader.unit_tokens, unit=unit), autograph=False)
    tokens = units(tf.constant(texts))
    expected, spans = tokenize_units(texts, FastTokenizer(vocabulary), unit=unit)
    found = tokens.ids.values, tokens.ids.row_splits, tokens.first_tokens, tokens.splits
    wanted = expected.ids, expected.bounds, expected.starts, expected.word_bounds
    assert [each.numpy().tolist() for each in found] == [each.tolist() for each in wanted]
    text_ids = np.repeat(np.arange(len(texts)), np.diff(expected.word_bounds))
    found = [tokens.source.in_text(each, text_ids) for each in (tokens.starts, tokens.ends)]
    assert np.stack(found, axis=1).tolist() == np.reshape(spans, [-1, 2]).tolist()
    assert units(tf.constant([], tf.string)).first_tokens.shape == [0]
