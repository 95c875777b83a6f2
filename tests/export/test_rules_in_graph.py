"""Byte-level BPE and Unigram pieces inside a graph: the ids of the library, packed alike."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.convert.huggingface.rules import read_rules
from bert_keras.errors import InputError
from bert_keras.export.byte_pairs_in_graph import BytePairs
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.unigrams_in_graph import Unigrams
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary, write_vocabulary
from bert_keras.text.packing import pack
from tests.unicode_texts import CHARACTERS, TEXTS, characters_in_any_order

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8").split("\n")
IN_GRAPH = {"roberta": BytePairs, "albert": Unigrams}


@pytest.fixture(scope="module", params=IN_GRAPH)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def both(kind, subwords):
    """text -> ids of the library, and of a graph."""
    vocabulary = rules_vocabulary(read_rules(subwords[kind], {}))
    return FastTokenizer(vocabulary).ids_batch, in_graph(IN_GRAPH[kind](vocabulary))


def in_graph(module):
    spec = tf.TensorSpec([None], tf.string)
    graph = tf.function(module.__call__, input_signature=[spec])
    return lambda texts: graph(tf.constant(texts, tf.string, shape=[len(texts)])).to_list()


def assert_equal(both, texts) -> None:
    ours, graph = (read(texts) for read in both)
    for text, one, other in zip(texts, ours, graph, strict=True):
        assert one == other, ascii(text)


def test_unicode_suite_and_real_text(both):
    assert_equal(both, [*TEXTS, *LICENSE, "", "\n\n", "a" * 500])
    assert_equal(both, [])


def test_every_character(both):
    """Letters around show whether one is dropped, is a space, or goes with the word."""
    assert_equal(both, [f"a{character}B {character}" for character in CHARACTERS[::23]])
    assert_equal(both, [f"1{character}!{character}" for character in CHARACTERS[:3000]])


def test_spaces_apostrophes_and_kinds_in_any_order(both):
    pick, known = random.Random(1), [*" '\n\t\u00a0\u3000\x1c", *"stmdrev", *"aB1²!?.é中\u0301😀"]
    assert_equal(both, ["".join(pick.choices(known, k=pick.randrange(14))) for _ in range(3000)])


def test_characters_in_any_order(both):
    assert_equal(both, characters_in_any_order(3000))


def test_a_space_before_each_text(subwords):
    rules = read_rules(subwords["roberta"], {"add_prefix_space": True})
    vocabulary = rules_vocabulary(rules)
    texts = [*TEXTS, "a", " a", "\na", "\u00a0a", ""]
    assert_equal((FastTokenizer(vocabulary).ids_batch, in_graph(BytePairs(vocabulary))), texts)


def test_bytes_that_are_no_utf_8_are_dropped(both):
    _, graph = both
    assert graph([b"a\xff\xc3b"]) == graph([b"ab"])


@pytest.mark.parametrize("max_length", [9, 40])
def test_packed_as_offline(kind, subwords, tmp_path, max_length):
    vocabulary = rules_vocabulary(read_rules(subwords[kind], {}))
    file = write_vocabulary(vocabulary, tmp_path)
    reader = TextToInputs(file, lowercase=False, max_length=max_length)
    tokenizer = FastTokenizer(vocabulary)
    firsts, seconds = LICENSE[:40], LICENSE[40:80]
    for texts in ((firsts,), (firsts, seconds)):
        ids = [tokenizer.ids_batch(each) for each in texts]
        expected = pack(*ids, vocabulary=vocabulary, max_length=max_length)
        given = reader(*(tf.constant(each) for each in texts))
        assert given.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(given[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("kind", "settings", "changes", "said"),
    [
        ("roberta", {}, {"normalizer": {"type": "NFC"}}, "the tokenizer has normalizer, which no"),
        ("roberta", {}, {"merges": [["a", "bc"], ["b", "c"]]}, "merges of what comes later"),
        ("albert", {"keep_accents": True}, {}, "which drops accents"),
    ],
)
def test_rules_that_no_graph_follows(subwords, kind, settings, changes, said):
    rules = json.loads(read_rules(subwords[kind], settings))
    for name, value in changes.items():
        if name == "merges":
            rules["model"]["merges"] = value
            rules["model"]["vocab"] |= {"bc": 400, "abc": 401}
        else:
            rules[name] = value
    with pytest.raises(InputError, match=said):
        IN_GRAPH[kind](rules_vocabulary(json.dumps(rules)))


def test_places_in_a_text_are_wordpieces(kind, subwords, tmp_path):
    file = write_vocabulary(rules_vocabulary(read_rules(subwords[kind], {})), tmp_path)
    reader = TextToInputs(file, lowercase=False, max_length=9)
    with pytest.raises(InputError, match="of WordPiece stand in a text, not those"):
        reader.check_knows_places()
