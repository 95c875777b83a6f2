"""Byte-level BPE and Unigram: trained vocabularies and records written with them."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.data.records import common_schema
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import (
    FastTokenizer,
    rules_vocabulary,
    vocabulary_from,
    vocabulary_in,
)
from tfrecords_tools.build import build
from tfrecords_tools.cli import main
from tfrecords_tools.inspect.check import check
from tfrecords_tools.inspect.show import record_texts
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.inspect.verify import every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings, GoogleSettings
from tfrecords_tools.vocab.subwords import train_byte_pairs, train_unigram
from tfrecords_tools.vocab.train_vocab import train_vocabulary

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=2, shards=1, seed=7)
PLAIN = replace(SMALL, objective="doc-sentences", max_length=300, max_predictions=0, duplicates=1)


@pytest.fixture(params=["roberta", "albert", "modernbert"])
def vocabulary(request, subwords):
    return rules_vocabulary(read_rules(subwords[request.param], {}))


@pytest.fixture
def lines():
    """Lists of lines, one for each document; each line begins with '@', which is unique."""
    words = [word for word in LICENSE.split() if word.isascii() and word.isalpha()]
    sentences = [" ".join(words[n : n + 7]).capitalize() + "." for n in range(0, 700, 7)]
    return [[f"@{' '.join(sentences[n : n + 3])}" for n in (d, d + 3, d + 6)] for d in
            range(0, 90, 9)]  # fmt: skip


@pytest.fixture
def corpus(lines, tmp_path):
    text = "\n\n".join("\n".join(document) for document in lines)
    (tmp_path / "corpus.txt").write_text(text + "\n\n \n", encoding="utf-8")
    return tmp_path / "corpus.txt"


def built(corpus, vocabulary, settings, **options):
    """Builds records, checks them, and returns the concatenated features of all shards."""
    folder = corpus.parent / "records"
    build([corpus], vocabulary=vocabulary, output=folder, settings=settings, **options)
    assert vocabulary_in(folder) == vocabulary
    counts = check(folder, vocabulary=vocabulary)  # against the manifest too
    assert (counts["unknown"] == 0) == (vocabulary.specials.word_start == "Ġ")  # ALBERT's has no @
    files = every_file(folder)
    batches = [each for f in files for each in parsed_batches(f, schema=common_schema(files))]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_merges_of_byte_pairs():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    tokens = train_byte_pairs(words, size=5 + 256 + 3, lowercase=False).tokens
    assert tokens[:5] == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert tokens[-3:] == ("es", "est", "lo")  # 9 each, then 7: ties go to the lower ids


def test_frequent_words_are_counted():
    """SentencePiece skips long lines, so no occurrence of a frequent word is in one."""
    words = Counter({"remarkable": 1_000, "able": 900, "market": 900, "mark": 900})
    tokens = train_unigram(words, size=60, lowercase=True).tokens
    assert "▁remarkable" in tokens


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_a_new_process_learns_the_same_bytes(tmp_path, model):
    (tmp_path / "a").write_text(LICENSE + "naïve 東京 " * 9, encoding="utf-8")
    output = tmp_path / "tokenizer.json"
    command = ["vocab", str(tmp_path / "a"), "--model", model, "--size", "420", "--output"]
    assert main([*command, str(output), "--workers", "1"]) == 0
    vocabulary, first = vocabulary_from(output), output.read_bytes()
    output.unlink()
    subprocess.run(
        [sys.executable, "-m", "tfrecords_tools.cli", *command, output, "--workers", "1"],
        env=os.environ | {"RAYON_NUM_THREADS": "3"},
        check=True,
        capture_output=True,
    )
    assert output.read_bytes() == first
    assert 300 < len(vocabulary) <= 420
    tokenizer, text = FastTokenizer(vocabulary), "Derivative Works, naïve 東京"
    encoded = tokenizer.encode(text)
    if model == "bpe":
        assert tokenizer.decode(encoded.ids) == text
        assert "ĠWork" in vocabulary.tokens and len(encoded.ids) < len(text.encode()) / 1.5
    else:
        assert vocabulary.tokens[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
        assert "▁work" in vocabulary.tokens and len(encoded.ids) < len(text) / 1.5
        assert tokenizer.decode(encoded.ids) == "derivative works, naive 東京"
        cased = train_vocabulary([tmp_path / "a"], size=420, model="unigram", lowercase=False)
        assert FastTokenizer(cased).decode(FastTokenizer(cased).encode(text).ids) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--model bpe --output vocab.txt",
            "vocab.txt does not fit --model bpe; name it tokenizer.json",
        ),
        ("--output a.json", "a.json does not fit --model wordpiece; name it vocab.txt"),
        (
            "--model bpe --size 200 --output a.json",
            "size is 200; expected at least 262 tokens for bpe",
        ),
        (
            "--model unigram --size 9 --output a.json",
            "size is 9; expected at least 15 tokens for unigram",
        ),
        ("--model unigram --size 16 --output a.json", "SentencePiece cannot learn 16 tokens"),
        (
            "--model unigram --unused 3 --output a.json",
            "unused is 3; expected 0: unigram has no [unusedN] tokens",
        ),
        ("--model bpe --size 300 --output a.json", "no pair of letters occurs twice in the corpus"),
    ],
)
def test_impossible_vocabularies_are_refused(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    text = "a b c d e" if "300" in options else "some words of a text"
    (tmp_path / "text").write_text(text)
    assert main(["vocab", "text", *options.split(), "--workers", "1"]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_a_record_contains_the_ids_of_its_lines(vocabulary, lines, corpus):
    features, tokenizer = built(corpus, vocabulary, PLAIN), FastTokenizer(vocabulary)
    expected = {
        (vocabulary.cls_id, *(i for line in each for i in tokenizer.encode(line).ids),
         vocabulary.sep_id)
        for each in lines
    }  # fmt: skip
    rows = zip(features["input_ids"], features["input_mask"], strict=True)
    assert {tuple(ids[mask == 1].tolist()) for ids, mask in rows} == expected


@pytest.mark.parametrize(
    ("objective", "sequences"),
    [
        *[("nsp", 3), ("sop", 1)],
        pytest.param("nsp", 1, marks=pytest.mark.slow),
        pytest.param("sop", 3, marks=pytest.mark.slow),
        pytest.param("full-sentences", 1, marks=pytest.mark.slow),
        pytest.param("full-sentences", 3, marks=pytest.mark.slow),
    ],
)
def test_texts_are_separated_as_the_vocabulary_specifies(vocabulary, corpus, objective, sequences):
    settings = replace(SMALL, objective=objective, sequences_per_record=sequences, max_length=64)
    features = built(corpus, vocabulary, settings)
    is_sep = features["input_ids"] == vocabulary.sep_id
    is_roberta = vocabulary.specials.num_separators == 2
    assert (is_sep[:, 1:] & is_sep[:, :-1]).any() == is_roberta
    has_segments = vocabulary.specials.second_segment and objective != "full-sentences"
    assert features["segment_ids"].any() == has_segments
    starts = (features["input_ids"] == vocabulary.cls_id).sum()
    assert is_sep.sum() >= starts
    if objective != "full-sentences":  # a pair each
        assert is_sep.sum() == starts * (1 + vocabulary.specials.num_separators)


def test_whole_words_end_at_blanks_and_lines(vocabulary, corpus):
    settings = replace(SMALL, objective="full-sentences", mask_unit="word", mask_rate=0.3)
    features = built(corpus, vocabulary, settings)
    assert features["input_ids"].max() < len(vocabulary)
    specials = (vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id)
    seen = Counter()
    for row, ids in enumerate(features["input_ids"]):
        is_counted = features["masked_lm_weights"][row] > 0
        chosen = features["masked_lm_positions"][row][is_counted]
        ids[chosen] = features["masked_lm_ids"][row][is_counted]
        is_chosen = np.isin(np.arange(len(ids)), chosen)
        for index in range(2, len(ids)):
            pair = ids[index - 1 : index + 1]
            token = vocabulary.tokens[pair[1]]
            if np.isin(pair, specials).any():
                continue
            is_same = vocabulary.continues(token) and token != "@"
            assert not is_same or is_chosen[index - 1] == is_chosen[index], (row, index)
            seen[is_same, bool(is_chosen[index - 1] == is_chosen[index])] += 1
            seen["line"] += token == "@" and is_chosen[index - 1] != is_chosen[index]
    assert min(seen[True, True], seen[False, False]) > 50
    assert seen["line"] > 0 or vocabulary.specials.word_start == "▁"


def test_tokens_are_shown_as_text(vocabulary, corpus):
    built(corpus, vocabulary, replace(SMALL, objective="sop"))
    folder = corpus.parent / "records"
    marks, text = list(record_texts(folder, vocabulary=vocabulary, count=1))
    mask = vocabulary.tokens[vocabulary.mask_id]
    assert "masked" in marks and f"{{{mask}=" in text and not re.search("Ġ\\w", text)
    assert f"{vocabulary.tokens[vocabulary.sep_id]}" in text


def test_a_survey_of_a_corpus(vocabulary, corpus):
    counts = survey([corpus], vocabulary=vocabulary, settings=SMALL)
    assert (counts.unknown == 0) == (vocabulary.specials.word_start == "Ġ")
    assert counts.tokens > 500
    assert list(counts.forecasts) == ["nsp", "sop", "full-sentences", "doc-sentences"]
    longer = survey([corpus], vocabulary=vocabulary, settings=replace(SMALL, max_length=64))
    assert longer.forecasts["sop"].records < counts.forecasts["sop"].records


def test_incompatible_settings_and_vocabularies_are_refused(subwords, corpus):
    albert, roberta = (
        rules_vocabulary(read_rules(subwords[name], {})) for name in ("albert", "roberta")
    )
    for vocabulary, settings, message in (
        (albert, GoogleSettings(), "--compat google expects WordPiece: give a voc"),
        (albert, replace(SMALL, lowercase=False), "lower-cases texts; leave out --cased"),
        (roberta, replace(SMALL, max_length=5), "at least 6 with this vocabulary: <s> A </s></s> "),
    ):
        with pytest.raises(InputError, match=message):
            build([corpus], vocabulary=vocabulary, output=corpus.parent / "no", settings=settings)
    assert not (corpus.parent / "no").exists() and not (corpus.parent / "no.partial").exists()


def test_a_corpus_of_white_space_is_refused(vocabulary, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n\u2003\n")
    with pytest.raises(InputError, match="contains no text"):
        build(
            [tmp_path / "empty.txt"], vocabulary=vocabulary, output=tmp_path / "no", settings=SMALL
        )
