"""Byte-level BPE and Unigram pieces: ids, places, specials, packing, and what is refused."""

import json

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.errors import InputError
from bert_keras.tasks.ner.files import Sentence
from bert_keras.tasks.ner.windows import word_pieces
from bert_keras.text.fast_tokenizer import (
    FastTokenizer,
    rules_vocabulary,
    tokenizer_of,
)
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tests.unicode_texts import TEXTS

WRITTEN = "<s> a </s> <pad> <unk> <mask> [CLS] [SEP] [MASK]"


@pytest.fixture(params=["roberta", "albert"])
def tokenizer(request, subwords):
    return FastTokenizer(rules_vocabulary(read_rules(subwords[request.param], {})))


def test_the_kind_of_a_vocabulary_is_that_of_its_tokenizer(tokenizer):
    assert type(tokenizer_of(tokenizer.vocabulary, lowercase=False)) is FastTokenizer
    plain = tokenizer_of(Vocabulary(SPECIAL_PIECES), lowercase=False)
    assert type(plain) is WordPieceTokenizer and not plain.lowercase


def test_one_text_or_many_are_the_same(tokenizer):
    told = tokenizer.encode_batch(TEXTS)
    assert told == [tokenizer.encode(text) for text in TEXTS]
    assert tokenizer.ids_batch(TEXTS) == [each.ids for each in told]
    ids, lengths = tokenizer.flat_ids(TEXTS)
    assert [*ids] == [number for each in told for number in each.ids]
    assert [*lengths] == [len(each.ids) for each in told]
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)


def test_the_blank_before_a_gap_goes_with_it(tokenizer):
    mask_id = tokenizer.vocabulary.mask_id
    the, license = tokenizer.ids_batch(["under the", " License"])
    texts = ["under the [MASK] License", "under the\n [MASK] License", "under the[MASK] License"]
    assert ids_with_masks(texts, tokenizer) == 3 * [[*the, mask_id, *license]]


def test_words_by_themselves_stand_behind_a_blank(tokenizer):
    words = ["the", "License", "naïve"]
    found = word_pieces([Sentence(tuple(words), None, 0, 1)], tokenizer)
    assert [*found.ids] == tokenizer.encode(" " + " ".join(words)).ids


def test_a_special_that_is_written_is_no_special(tokenizer):
    ids = tokenizer.encode(WRITTEN).ids
    vocabulary = tokenizer.vocabulary
    written = {vocabulary.ids[piece] for piece in vocabulary.specials.pieces} - {vocabulary.unk_id}
    assert written.isdisjoint(ids)


def test_offsets_lead_to_the_characters(tokenizer):
    text = "The License, under naïve  Terms"
    told = tokenizer.encode(text)
    read = [text[start:end] for start, end in told.offsets]
    assert not any(part.startswith(" ") or part.endswith(" ") for part in read)
    assert {*"The License, under naïve Terms"} - {" "} <= {*"".join(read)}
    assert told.offsets == sorted(told.offsets)


def test_lower_case_is_told_by_the_rules(subwords):
    albert = FastTokenizer(rules_vocabulary(read_rules(subwords["albert"], {})))
    cased = FastTokenizer(
        rules_vocabulary(read_rules(subwords["albert"], {"do_lower_case": False}))
    )
    roberta = FastTokenizer(rules_vocabulary(read_rules(subwords["roberta"], {})))
    assert (albert.lowercase, cased.lowercase, roberta.lowercase) == (True, False, False)
    assert albert.encode("ÉCOLE").ids == albert.encode("ecole").ids
    assert roberta.decode(roberta.encode("Apache License").ids) == "Apache License"
    assert albert.decode(albert.encode("Apache License").ids) == "apache license"


def test_a_comma_is_no_part_of_a_number(subwords):
    tokenizer = FastTokenizer(rules_vocabulary(read_rules(subwords["albert"], {})))
    assert any(piece.rstrip(",")[-1:].isdigit() and piece[-1] == "," for piece in
               tokenizer.vocabulary.pieces)  # fmt: skip
    pieces = tokenizer.encode("12, 30,522 and 0, 1, 2, 3,").pieces
    assert not any(piece[-1] == "," and piece[-2:-1].isdigit() for piece in pieces)


def test_pairs_are_packed_as_each_was_trained(tokenizer):
    vocabulary, (a, b) = tokenizer.vocabulary, tokenizer.ids_batch(["under the", "License"])
    packed = pack([a], [b], vocabulary=vocabulary, max_length=64)
    cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
    between = sep * vocabulary.specials.num_separators
    assert [*packed["input_ids"][0]] == [*cls, *a, *between, *b, *sep]
    is_roberta = vocabulary.specials.num_separators == 2
    assert packed["segment_ids"].sum() == (0 if is_roberta else len(b) + 1)
    short = pack([a, a], [b * 9, []], vocabulary=vocabulary, max_length=12)
    assert short["input_ids"].shape == (2, 12)
    assert [*short["input_ids"][1]][: len(a) + 5] == [
        *cls, *a, *between, *sep, *[vocabulary.pad_id] * (3 - len(between)),
    ]  # fmt: skip


def test_rules_know_of_padding(tokenizer):
    longer = tokenizer.vocabulary.padded(len(tokenizer.vocabulary) + 3)
    assert longer.pieces[-1] == "[unused2]" and rules_vocabulary(longer.rules) == longer
    for text in ("a b", "a [unused2]"):
        assert FastTokenizer(longer).encode(text) == tokenizer.encode(text)


def test_what_is_refused(subwords):
    rules = json.loads(read_rules(subwords["roberta"], {}))
    for changes, said in (
        ({"pre_tokenizer": {"type": "Whitespace"}}, "is of a BPE tokenizer split by"),
        ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}, "is of a WordLeve"),
        ({"model": {"type": "BPE"}}, "tokenizer.json is damaged"),
    ):
        with pytest.raises(InputError, match=said):
            rules_vocabulary(json.dumps(rules | changes))
