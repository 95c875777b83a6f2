import gzip

import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.inspect import survey as surveys
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.settings import BuildSettings

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", ".", "##s")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))


def survey_of(*paths, vocabulary=VOCABULARY, lowercase=True, **options):
    settings = BuildSettings(max_length=32, lowercase=lowercase)
    return survey(paths, vocabulary=vocabulary, settings=settings, **options)


@pytest.fixture
def text(tmp_path):
    def written(content, name="a.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return written


def test_documents_sentences_and_tokens(text):
    counts = survey_of(text("The cat sat. The dog ran.\nA cat.\n\nThe mats.\n"))
    assert counts.is_complete
    assert counts.document_sentences == [3, 1]
    assert (counts.lines, counts.characters, counts.longest_document) == (3, 40, 31)
    assert counts.sentence_tokens == {4: 3, 3: 1}
    assert (counts.tokens, counts.unknown) == (15, 0)
    assert set(counts.forecasts) == {
        "the original",
        "nsp",
        "sop",
        "full-sentences",
        "doc-sentences",
    }


def test_no_tokens_are_counted_without_a_vocabulary(text):
    counts = survey_of(text("The cat sat. The dog ran.\n"), vocabulary=None)
    assert counts.document_sentences == [2]
    assert (counts.tokens, counts.forecasts) == (0, {})


def test_one_document_has_no_next_sentence_forecast(text):
    counts = survey_of(text("The cat sat. The dog ran.\n"))
    assert set(counts.forecasts) == {"sop", "full-sentences", "doc-sentences"}


def test_unknown_words_are_named_and_counted_in_either_case(text):
    counts = survey_of(text("The quick cat sat.\n\nThe quick dog.\n"), lowercase=False)
    assert counts.unknown == 4
    assert counts.unknown_words == {"The": 2, "quick": 2}
    assert counts.unknown_in_case["unknown"] == 4
    assert counts.unknown_in_case["unknown_other"] == 2


def test_kinds_of_lines(text):
    lines = [
        "plain text of a line & nothing else",
        "a <b>bold</b> word",
        "salt &amp; pepper",
        "see [[Paris|the town]]",
        "== A title ==",
        "if a < b and b > c, then a < c",
        "the cafÃ© is closed",
        "he saidâ€™s",
        "naïve Ârzte and Ça va",
    ]
    counts = survey_of(text("\n".join(lines)))
    assert (counts.lines_with_markup, counts.lines_misread) == (4, 2)
    assert counts.lines_wrapped == 0


def test_lines_of_fixed_width_are_detected(text):
    wrapped = "The cat sat on a mat and the dog ran and the cat sat on a mat\nand the dog ran.\n"
    assert survey_of(text(wrapped * 3)).lines_wrapped == 3
    ended = wrapped.replace("mat\n", "mat.\n")
    assert survey_of(text(ended)).lines_wrapped == 0


def test_repeated_lines(text):
    counts = survey_of(
        text("The cat sat on a mat today.\nNo.\n" * 4 + "The dog ran and ran away.\n")
    )
    assert counts.line_repeats.counts() == (3, 5)


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"The caf\xe9.\n\nThe cat.\n")
    counts = survey_of(tmp_path / "a.txt")
    assert counts.lines == 2
    assert counts.repairs.counts["lines_not_utf8_replaced"] == 1


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_no_text_is_an_error(text, content):
    with pytest.raises(InputError, match="the corpus contains no text"):
        survey_of(text(content))


def test_a_splitter_without_sentences_is_an_error(text, tmp_path, monkeypatch):
    (tmp_path / "no_sentences.py").write_text("def split(line): return []")
    monkeypatch.syspath_prepend(tmp_path)
    settings = BuildSettings(splitter="no_sentences:split")
    with pytest.raises(InputError, match="no_sentences:split returned no sentence for any line"):
        survey([text("The cat sat.\n")], vocabulary=VOCABULARY, settings=settings)


DOCUMENT = "The cat sat on a mat. The dog ran.\n" * 30 + "\n"


def test_large_corpus_is_sampled_evenly(text, monkeypatch):
    monkeypatch.setattr(surveys, "UNIT_BYTES", 4_000)
    path = text("".join(f"{DOCUMENT}Place {n}.\n\n" for n in range(400)))
    counts = survey_of(path, sample_bytes=100_000)
    assert not counts.is_complete
    assert counts.num_bytes == path.stat().st_size > 400_000
    assert 90_000 < counts.text_bytes < 140_000
    assert 60 < len(counts.document_sentences) < 300
    assert 16 <= counts.documents_cut <= 32


def test_sample_of_a_compressed_file_is_its_start(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress((DOCUMENT * 3000).encode(), 0))
    counts = survey_of(tmp_path / "a.gz", sample_bytes=200_000)
    assert counts.is_compressed and not counts.is_complete
    assert 200_000 < counts.text_bytes < 220_000
