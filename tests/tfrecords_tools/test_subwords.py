"""Byte-level BPE and Unigram: vocabularies that are learnt, records that are written with them."""

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
from tfrecords_tools.inspect.show import shown
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.inspect.verify import every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings, GoogleSettings
from tfrecords_tools.vocab.subwords import trained_byte_pairs, trained_unigram
from tfrecords_tools.vocab.train_vocab import train_vocabulary

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=2, shards=1, seed=7)
PLAIN = replace(SMALL, objective="doc-sentences", max_length=300, max_predictions=0, duplicates=1)


@pytest.fixture(params=["roberta", "albert"])
def vocabulary(request, subwords):
    return rules_vocabulary(read_rules(subwords[request.param], {}))


@pytest.fixture
def lines():
    """Of documents; each is some sentences, and begins with what stands nowhere else."""
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
    """The vocabulary's copy beside the records, and their features, of all shards together."""
    folder = corpus.parent / "records"
    build([corpus], vocabulary=vocabulary, output=folder, settings=settings, **options)
    assert vocabulary_in(folder) == vocabulary
    counts = check(folder, vocabulary=vocabulary)  # against the manifest too
    assert (counts["unknown"] == 0) == (vocabulary.specials.word_start == "Ġ")  # ALBERT's has no @
    files = every_file(folder)
    batches = [each for f in files for each in parsed_batches(f, schema=common_schema(files))]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_merges_exactly():
    words = Counter({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    pieces = trained_byte_pairs(words, size=5 + 256 + 3, lowercase=False).pieces
    assert pieces[:5] == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert pieces[-3:] == ("es", "est", "lo")  # 9 each, then 7: ties go to the lower ids


def test_a_word_of_any_count_is_counted():
    """SentencePiece leaves long lines out: of a word that is frequent none is to be in one."""
    words = Counter({"remarkable": 1_000, "able": 900, "market": 900, "mark": 900})
    pieces = trained_unigram(words, size=60, lowercase=True).pieces
    assert "▁remarkable" in pieces


@pytest.mark.parametrize("model", ["bpe", "unigram"])
def test_a_fresh_process_learns_the_same_bytes(tmp_path, model):
    (tmp_path / "a").write_text(LICENSE + "naïve 東京 " * 9, encoding="utf-8")
    output = tmp_path / "tokenizer.json"
    command = ["vocab", str(tmp_path / "a"), "--model", model, "--size", "420", "--output"]
    assert main([*command, str(output), "--workers", "1"]) == 0
    vocabulary, first = vocabulary_from(output), output.read_bytes()
    subprocess.run(
        [sys.executable, "-m", "tfrecords_tools.cli", *command, output, "--workers", "1"],
        env=os.environ | {"RAYON_NUM_THREADS": "3"},
        check=True,
        capture_output=True,
    )
    assert output.read_bytes() == first
    assert 300 < len(vocabulary) <= 420
    tokenizer, text = FastTokenizer(vocabulary), "Derivative Works, naïve 東京"
    told = tokenizer.encode(text)
    if model == "bpe":
        assert tokenizer.decode(told.ids) == text
        assert "ĠWork" in vocabulary.pieces and len(told.ids) < len(text.encode()) / 1.5
    else:
        assert vocabulary.pieces[:5] == ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
        assert "▁work" in vocabulary.pieces and len(told.ids) < len(text) / 1.5
        assert tokenizer.decode(told.ids) == "derivative works, naive 東京"
        cased = train_vocabulary([tmp_path / "a"], size=420, model="unigram", lowercase=False)
        assert FastTokenizer(cased).decode(FastTokenizer(cased).encode(text).ids) == text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--model bpe --output vocab.txt", "vocab.txt is to hold bpe; name it tokenizer.json"),
        ("--output a.json", "a.json is to hold wordpiece; name it vocab.txt"),
        ("--model bpe --size 200 --output a.json", "of 200 pieces is too small; expected at least"),
        ("--model unigram --size 9 --output a.json", "of 9 pieces is too small; expected at least"),
        ("--model unigram --size 16 --output a.json", "SentencePiece makes no 16 pieces of the"),
        ("--model unigram --unused 3 --output a.json", "unused slots are WordPiece's; leave them"),
        ("--model bpe --size 300 --output a.json", "no two letters of the corpus stand together"),
    ],
)
def test_what_cannot_be_learnt(tmp_path, monkeypatch, capsys, options, told):
    monkeypatch.chdir(tmp_path)
    text = "a b c d e" if "300" in options else "some words of a text"
    (tmp_path / "text").write_text(text)
    assert main(["vocab", "text", *options.split(), "--workers", "1"]) == 2
    assert told in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_a_record_holds_the_ids_of_its_lines(vocabulary, lines, corpus):
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
def test_texts_are_kept_apart_as_the_vocabulary_has_it(vocabulary, corpus, objective, sequences):
    settings = replace(SMALL, objective=objective, sequences_per_record=sequences, max_length=64)
    features = built(corpus, vocabulary, settings)
    is_sep = features["input_ids"] == vocabulary.sep_id
    is_roberta = vocabulary.specials.num_separators == 2
    assert (is_sep[:, 1:] & is_sep[:, :-1]).any() == is_roberta
    assert features["segment_ids"].any() == (not is_roberta and objective != "full-sentences")
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
        for place in range(2, len(ids)):
            pair = ids[place - 1 : place + 1]
            piece = vocabulary.pieces[pair[1]]
            if np.isin(pair, specials).any():
                continue
            is_same = vocabulary.continues(piece) and piece != "@"
            assert not is_same or is_chosen[place - 1] == is_chosen[place], (row, place)
            seen[is_same, bool(is_chosen[place - 1] == is_chosen[place])] += 1
            seen["line"] += piece == "@" and is_chosen[place - 1] != is_chosen[place]
    assert min(seen[True, True], seen[False, False]) > 50
    assert seen["line"] > 0 or vocabulary.specials.word_start == "▁"


def test_pieces_are_shown_as_text(vocabulary, corpus):
    built(corpus, vocabulary, replace(SMALL, objective="sop"))
    folder = corpus.parent / "records"
    marks, text = list(shown(folder, vocabulary=vocabulary, count=1))
    mask = vocabulary.pieces[vocabulary.mask_id]
    assert "masked" in marks and f"{{{mask}=" in text and not re.search("Ġ\\w", text)
    assert f"{vocabulary.pieces[vocabulary.sep_id]}" in text


def test_a_look_before(vocabulary, corpus):
    found = survey([corpus], vocabulary=vocabulary, settings=SMALL)
    assert (found.unknown == 0) == (vocabulary.specials.word_start == "Ġ")
    assert found.pieces > 500
    assert list(found.forecasts) == ["nsp", "sop", "full-sentences", "doc-sentences"]
    whole = survey([corpus], vocabulary=vocabulary, settings=replace(SMALL, max_length=64))
    assert whole.forecasts["sop"].records < found.forecasts["sop"].records


def test_what_does_not_go_together(subwords, corpus):
    albert, roberta = (
        rules_vocabulary(read_rules(subwords[name], {})) for name in ("albert", "roberta")
    )
    for vocabulary, settings, told in (
        (albert, GoogleSettings(), "the records of --compat google are of WordPiece; give a voc"),
        (albert, replace(SMALL, lowercase=False), "puts texts into lower case; leave out --cased"),
        (roberta, replace(SMALL, max_length=5), "at least 6 with this vocabulary: <s> A </s></s> "),
    ):
        with pytest.raises(InputError, match=told):
            build([corpus], vocabulary=vocabulary, output=corpus.parent / "no", settings=settings)
    assert not (corpus.parent / "no").exists() and not (corpus.parent / "no.partial").exists()


def test_a_text_of_blanks_is_none(vocabulary, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n\u2003\n")
    with pytest.raises(InputError, match="holds no text"):
        build(
            [tmp_path / "empty.txt"], vocabulary=vocabulary, output=tmp_path / "no", settings=SMALL
        )
