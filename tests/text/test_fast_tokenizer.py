"""Byte-level BPE and Unigram: ids, offsets, special tokens, packing, and unsupported rules."""

import json
import re

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
from bert_keras.errors import InputError
from bert_keras.kinds.words import Sentence, tokenize_words
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary
from bert_keras.text.packing import ids_with_masks, pack
from tests.unicode_texts import TEXTS

WRITTEN = "<s> a </s> <pad> <unk> <mask> [CLS] [SEP] [MASK]"


@pytest.fixture(params=["roberta", "albert", "modernbert"])
def tokenizer(request, subwords):
    return made(subwords[request.param])


def made(folder, **settings):
    return FastTokenizer(rules_vocabulary(read_tokenizer_json(folder, settings)))


def test_batches_equal_single_texts(tokenizer):
    encoded = tokenizer.encode_batch(TEXTS)
    assert encoded == [tokenizer.encode(text) for text in TEXTS]
    assert tokenizer.ids_batch(TEXTS) == [each.ids for each in encoded]
    ids, lengths = tokenizer.flat_ids(TEXTS)
    assert [*ids] == [number for each in encoded for number in each.ids]
    assert [*lengths] == [len(each.ids) for each in encoded] and lengths.dtype == np.int64


def test_white_space_before_a_mask_is_removed(tokenizer):
    mask_id = tokenizer.vocabulary.mask_id
    the, license = tokenizer.ids_batch(["under the", " License"])
    texts = ["under the [MASK] License", "under the\n [MASK] License", "under the[MASK] License"]
    assert ids_with_masks(texts, tokenizer) == 3 * [[*the, mask_id, *license]]


def test_separate_words_follow_a_space_and_written_special_tokens_are_plain_text(tokenizer):
    words = ["the", "License", "naïve"]
    encoded = tokenize_words([Sentence(tuple(words), None, 0, 1)], tokenizer)
    assert [*encoded.ids] == tokenizer.encode(" " + " ".join(words)).ids
    ids = tokenizer.encode(WRITTEN).ids
    vocabulary = tokenizer.vocabulary
    written = {vocabulary.ids[token] for token in vocabulary.specials.tokens} - {vocabulary.unk_id}
    assert written.isdisjoint(ids)


def test_added_tokens_in_text_are_tokens_unless_they_are_special(subwords):
    tokenizer = made(subwords["modernbert"])
    encoded = tokenizer.encode("a   e\u0301|||IP_ADDRESS||| [SEP]")
    assert encoded.tokens[:5] == ["a", "   ", "Ã", "©", "|||IP_ADDRESS|||"]
    assert encoded.offsets[:5] == [(0, 1), (4, 4), (4, 5), (4, 5), (6, 22)]
    assert "".join(encoded.tokens[5:]) == "Ġ[SEP]" and "[SEP]" not in encoded.tokens
    continued = [*map(tokenizer.vocabulary.continues, encoded.tokens[1:6])]
    assert continued == [False, True, True, True, False]


def test_offsets_cover_the_characters(tokenizer):
    text = "The License, under naïve  Terms"
    encoded = tokenizer.encode(text)
    read = [text[start:end] for start, end in encoded.offsets]
    assert not any(part.startswith(" ") or part.endswith(" ") for part in read)
    assert {*"The License, under naïve Terms"} - {" "} <= {*"".join(read)}
    assert encoded.offsets == sorted(encoded.offsets)


def test_the_rules_decide_lower_casing_and_separate_commas_from_numbers(subwords):
    albert, roberta = made(subwords["albert"]), made(subwords["roberta"])
    cased = made(subwords["albert"], do_lower_case=False)
    assert (albert.lowercase, cased.lowercase, roberta.lowercase) == (True, False, False)
    assert albert.encode("ÉCOLE").ids == albert.encode("ecole").ids
    assert roberta.decode(roberta.encode("Apache License").ids) == "Apache License"
    assert albert.decode(albert.encode("Apache License").ids) == "apache license"
    ends_in_both = re.compile(r".*\d,").fullmatch
    assert any(map(ends_in_both, albert.vocabulary.tokens))
    assert not any(map(ends_in_both, albert.encode("12, 30,522 and 0, 1, 2, 3,").tokens))


def test_pairs_are_packed_with_the_special_tokens_of_the_model(tokenizer):
    vocabulary, (a, b) = tokenizer.vocabulary, tokenizer.ids_batch(["under the", "License"])
    packed = pack([a], [b], vocabulary=vocabulary, max_length=64)
    cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
    between = sep * vocabulary.specials.num_separators
    assert [*packed["input_ids"][0]] == [*cls, *a, *between, *b, *sep]
    assert packed["segment_ids"].sum() == vocabulary.specials.second_segment * (len(b) + 1)
    short = pack([a, a], [b * 9, []], vocabulary=vocabulary, max_length=12)
    assert short["input_ids"].shape == (2, 12)
    row, num_tokens = [*cls, *a, *between, *sep], len(a) + 2 + len(between)
    assert [*short["input_ids"][1]] == row + [vocabulary.pad_id] * (12 - num_tokens)


def test_padded_vocabularies_keep_their_rules(tokenizer):
    longer = tokenizer.vocabulary.padded(len(tokenizer.vocabulary) + 3)
    assert "[unused2]" in longer.tokens and rules_vocabulary(longer.rules) == longer
    for text in ("a b", f"a {longer.tokens[-1]}"):
        assert FastTokenizer(longer).encode(text) == tokenizer.encode(text)


def test_unsupported_rules_are_refused(subwords):
    rules = json.loads(read_tokenizer_json(subwords["roberta"], {}))
    nested = {"type": "Sequence", "pretokenizers": [rules["pre_tokenizer"]]}
    for splitter in ({"type": "Whitespace"}, nested):
        with pytest.raises(InputError):
            rules_vocabulary(json.dumps(rules | {"pre_tokenizer": splitter}))
