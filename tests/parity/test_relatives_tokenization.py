"""Byte-level BPE and Unigram pieces: the ids of transformers' RoBERTa and ALBERT tokenizers."""

import json
import re
from pathlib import Path

import pytest

from bert_keras.convert.huggingface.rules import read_rules
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary

transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

SUITE = Path(__file__).parents[1] / "text/unicode_suite.json"
TEXTS = [text for texts in json.loads(SUITE.read_text("utf-8")).values() for text in texts]
CLASSES = {"roberta": "RobertaTokenizer", "albert": "AlbertTokenizer"}
SPECIAL = re.compile(r"<(s|/s|pad|unk|mask)>|\[(CLS|SEP|MASK)\]")  # theirs takes them for pieces


@pytest.fixture(params=CLASSES)
def both(request, subwords):
    folder = subwords[request.param]
    ours = FastTokenizer(rules_vocabulary(read_rules(folder, {})))
    theirs = getattr(transformers, CLASSES[request.param]).from_pretrained(folder)

    def assert_equal(texts):
        texts = [text for text in texts if text and not SPECIAL.search(text)]
        if request.param == "albert":  # transformers 5 leaves out what Lan et al. do with "1,"
            texts = [text for text in texts if not re.search(r"\d,", text)]
        told = theirs(texts, add_special_tokens=False)["input_ids"]
        for text, one, other in zip(texts, ours.ids_batch(texts), told, strict=True):
            assert one == other, ascii(text)

    return assert_equal


def test_unicode_suite(both):
    both(TEXTS)


def test_some_real_text(both, shared_data):
    for name in ("wiki.txt", "books.txt"):
        both((shared_data / "corpus" / name).read_text("utf-8").split("\n")[::50])


@pytest.mark.slow
def test_all_real_text(both, shared_data):
    for path in sorted(path for path in (shared_data / "corpus").rglob("*") if path.is_file()):
        both(path.read_text("utf-8").split("\n"))
