"""Words are counted as the tokenizer divides them, over a corpus or a sample of it."""

import gzip
import random
import sys
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers.pre_tokenizers import BertPreTokenizer

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import normalizer
from tfrecords_tools.inputs.parts import FilePart
from tfrecords_tools.vocab import word_counts
from tfrecords_tools.vocab.word_counts import Reading, WordCounts, count_words, sample, words_of


def expected_counts(text, *, lowercase):
    normalized = normalizer(lowercase=lowercase).normalize_str(text)
    return Counter(word for word, _ in BertPreTokenizer().pre_tokenize_str(normalized))


def test_words_are_divided_as_by_the_tokenizer():
    text = "The café, the CAFE\u0301! [MASK] 日本 a\u200bb a\tb\x0cc don't"
    counts = {"the": 2, "cafe": 2, ",": 1, "!": 1, "[": 1, "]": 1, "mask": 1, "日": 1, "本": 1}
    rest = {"ab": 1, "a": 1, "bc": 1, "don": 1, "'": 1, "t": 1}
    assert words_of([text], lowercase=True) == {**counts, **rest}
    cased = words_of([text], lowercase=False)
    assert cased["The"] == cased["café"] == cased["MASK"] == 1


@pytest.mark.parametrize("lowercase", [True, False])
def test_all_characters_are_counted_as_by_the_tokenizer(lowercase):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    rare = [each for each in characters if ord(each) < 0x600 or ord(each) % 1601 == 0]
    text = " ".join(f"a{each}b {each} .{each}, {each}A{each}{each}" for each in rare)
    assert words_of([text], lowercase=lowercase) == expected_counts(text, lowercase=lowercase)


@pytest.mark.parametrize("seed", range(5))
def test_random_texts_are_counted_as_by_the_tokenizer(seed):
    letters = "aAbB.,-'é\u0301İßΣςﬁ日本。「あア\u200b\u00a0\u2028\t\x0c\x00🙂1٣" + " " * 10
    text = "".join(random.Random(seed).choices(letters, k=4000))
    for lowercase in (True, False):
        assert words_of([text], lowercase=lowercase) == expected_counts(text, lowercase=lowercase)


def test_lines_add_up():
    lines = ["a b.", "", "a日 b", "c\ta"]
    assert words_of(lines, lowercase=True) == {"a": 3, "b": 2, ".": 1, "日": 1, "c": 1}
    assert words_of([""], lowercase=True) == words_of([], lowercase=True) == {}


def units(*sizes):
    return [(FilePart(str(number), "text", 0, size, size),) for number, size in enumerate(sizes)]


def numbers(chosen):
    return [int(unit[0].path) for unit in chosen]


def test_the_sample_is_spread_evenly_whatever_its_size():
    corpus = units(*[10] * 1000)
    for count in (2, 5, 17, 100, 400):
        chosen = numbers(sample(corpus, sample_bytes=10 * count))
        assert len(chosen) == count
        assert chosen == sorted(chosen)
        gaps = [after - before for before, after in pairwise([*chosen, chosen[0] + 1000])]
        assert max(gaps) < 3 * 1000 / count


def test_sample_has_at_least_one_unit():
    assert numbers(sample(units(5, 5, 5), sample_bytes=15)) == [0, 1, 2]
    assert len(sample(units(5, 5, 5), sample_bytes=1)) == 1


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(word_counts, "UNIT_BYTES", 400)


def write(path, num_lines):
    path.write_text("".join(f"word{n % 7} line{n} the\n\n" for n in range(num_lines)))
    return path


def test_any_number_of_processes_counts_the_same(tmp_path, small_units):
    file = write(tmp_path / "a", 100)
    alone = count_words([file], lowercase=True, reading=Reading(sample_bytes=1000))
    assert (
        count_words([file], lowercase=True, reading=Reading(sample_bytes=1000, workers=2)) == alone
    )
    whole = count_words([file], lowercase=True)
    assert whole.counts["the"] == 100
    assert whole.remarks() == []
    assert (whole.bytes_read, whole.bytes_total) == (file.stat().st_size,) * 2


def test_sample_size_is_reported(tmp_path, small_units):
    file = write(tmp_path / "a", 100)
    counts = count_words([file], lowercase=True, reading=Reading(sample_bytes=1000))
    assert 10 < counts.counts["the"] < 60
    (remark,) = counts.remarks()
    assert remark.startswith(f"read {counts.bytes_read:,} of {counts.bytes_total:,} bytes, spread")
    assert counts.bytes_read <= 1000 < counts.bytes_total == file.stat().st_size


def test_only_the_start_of_a_long_compressed_file_is_read(tmp_path, small_units):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(write(tmp_path / "a", 500).read_bytes()))
    counts = count_words([path], lowercase=True, reading=Reading(sample_bytes=800))
    assert path.stat().st_size > 800
    assert 0 < counts.counts["the"] < 250
    assert 800 <= counts.bytes_read < 1300
    assert "only the start of a compressed file" in counts.remarks()[0]


def test_rarest_words_are_dropped(monkeypatch):
    monkeypatch.setattr(word_counts, "MAX_WORDS", 4)
    counts = WordCounts()
    counts.add(Counter({"a": 9, "b": 5, "c": 2, "d": 1}))
    assert len(counts.counts) == 4
    counts.add(Counter({"e": 1, "c": 1, "f": 3}))
    assert counts.counts == {"a": 9, "b": 5}
    assert counts.count_error == 3
    assert counts.remarks() == [
        "the corpus has more than 4 different words; words that occurred at most 3 times were "
        "dropped"
    ]


def test_limit_of_learnt_words_is_reported(monkeypatch):
    monkeypatch.setattr(word_counts, "MAX_LEARNT_WORDS", 2)
    counts = WordCounts(Counter("abc"))
    assert counts.remarks() == ["learnt from the 2 most frequent of 3 different words"]


def test_repairs_are_reported(tmp_path):
    (tmp_path / "a").write_bytes(b"good text\nbad \xff text\n")
    counts = count_words([tmp_path / "a"], lowercase=True, reading=Reading(errors="skip"))
    assert counts.counts == {"good": 1, "text": 1}
    (remark,) = counts.remarks()
    assert "UTF-8" in remark
    with pytest.raises(InputError, match="UTF-8"):
        count_words([tmp_path / "a"], lowercase=True)


def test_corpus_without_text_is_refused(tmp_path):
    (tmp_path / "a").write_text("\n\n")
    with pytest.raises(InputError, match="the corpus contains no text"):
        count_words([tmp_path / "a"], lowercase=True)
