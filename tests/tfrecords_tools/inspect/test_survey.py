import gzip

import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.inspect import survey as surveys
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.settings import BuildSettings

WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", ".", "##s")
VOCABULARY = Vocabulary((*SPECIAL_PIECES, *WORDS))


def looked_at(*places, vocabulary=VOCABULARY, lowercase=True, **options):
    settings = BuildSettings(max_length=32, lowercase=lowercase)
    return survey(places, vocabulary=vocabulary, settings=settings, **options)


@pytest.fixture
def text(tmp_path):
    def written(content, name="a.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode())
        return path

    return written


def test_documents_sentences_and_pieces(text):
    found = looked_at(text("The cat sat. The dog ran.\nA cat.\n\nThe mats.\n"))
    assert found.is_whole
    assert found.document_sentences == [3, 1]
    assert (found.lines, found.characters, found.longest_document) == (3, 40, 31)
    assert found.sentence_pieces == {4: 3, 3: 1}
    assert (found.pieces, found.unknown) == (15, 0)
    assert set(found.forecasts) == {"the original", "nsp", "sop", "full-sentences", "doc-sentences"}


def test_without_a_vocabulary_the_text_alone_is_looked_at(text):
    found = looked_at(text("The cat sat. The dog ran.\n"), vocabulary=None)
    assert found.document_sentences == [2]
    assert (found.pieces, found.forecasts) == (0, {})


def test_one_document_has_no_next_sentence_forecast(text):
    found = looked_at(text("The cat sat. The dog ran.\n"))
    assert set(found.forecasts) == {"sop", "full-sentences", "doc-sentences"}


def test_unknown_words_are_named_and_counted_in_either_case(text):
    found = looked_at(text("The quick cat sat.\n\nThe quick dog.\n"), lowercase=False)
    assert found.unknown == 4
    assert found.unknown_words == {"The": 2, "quick": 2}
    assert found.unknown_in_case["unknown"] == 4
    assert found.unknown_in_case["unknown_other"] == 2


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
    found = looked_at(text("\n".join(lines)))
    assert (found.lines_with_markup, found.lines_misread) == (4, 2)
    assert found.lines_wrapped == 0


def test_lines_of_fixed_width_are_seen(text):
    wrapped = "The cat sat on a mat and the dog ran and the cat sat on a mat\nand the dog ran.\n"
    assert looked_at(text(wrapped * 3)).lines_wrapped == 3
    ended = wrapped.replace("mat\n", "mat.\n")
    assert looked_at(text(ended)).lines_wrapped == 0


def test_repeated_lines(text):
    found = looked_at(
        text("The cat sat on a mat today.\nNo.\n" * 4 + "The dog ran and ran away.\n")
    )
    assert found.line_repeats.counts() == (3, 5)


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"The caf\xe9.\n\nThe cat.\n")
    found = looked_at(tmp_path / "a.txt")
    assert found.lines == 2
    assert found.repairs.counts["lines_not_utf8_replaced"] == 1


@pytest.mark.parametrize("content", ["", "\n\n \n"])
def test_no_text_is_an_error(text, content):
    with pytest.raises(InputError, match="the corpus holds no text"):
        looked_at(text(content))


DOCUMENT = "The cat sat on a mat. The dog ran.\n" * 30 + "\n"


def test_a_large_corpus_is_sampled_at_many_places(text, monkeypatch):
    monkeypatch.setattr(surveys, "UNIT_BYTES", 4_000)
    path = text("".join(f"{DOCUMENT}Place {n}.\n\n" for n in range(400)))
    found = looked_at(path, sample_bytes=100_000)
    assert not found.is_whole
    assert found.num_bytes == path.stat().st_size > 400_000
    assert 90_000 < found.text_bytes < 140_000
    assert 60 < len(found.document_sentences) < 300
    assert 16 <= found.documents_cut <= 32


def test_a_compressed_file_is_read_from_its_beginning(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress((DOCUMENT * 3000).encode(), 0))
    found = looked_at(tmp_path / "a.gz", sample_bytes=200_000)
    assert found.is_compressed and not found.is_whole
    assert 200_000 < found.text_bytes < 220_000
