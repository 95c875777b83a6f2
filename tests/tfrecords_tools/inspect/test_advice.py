import random
import re
import textwrap

import pytest

from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from tfrecords_tools.inspect import advice
from tfrecords_tools.inspect.advice import report, warnings_of
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.settings import BuildSettings

NAMES = ["ada", "ben", "cy", "dora", "eli", "fay", "gus", "hana"]
VERBS = ["sees", "likes", "helps", "calls", "meets"]
WORDS = [*NAMES, *VERBS, "the", "cats", "and", "dogs", "of", "maps", ".", ","]
UNCASED = Vocabulary((*SPECIAL_PIECES, *WORDS))
CASED = Vocabulary((*SPECIAL_PIECES, *WORDS, *(name.title() for name in NAMES)))


def good_text(num_documents=30, num_lines=12):
    """Documents of lines of two or three sentences, hardly a line twice."""
    draw = random.Random(1)

    def sentence():
        one, two, three = (draw.choice(NAMES).title() for _ in range(3))
        verb, other = draw.choices(VERBS, k=2)
        return f"{one} {verb} the cats of {two}, and the dogs of {three} {other} the maps."

    lines = [[" ".join(sentence() for _ in range(draw.randint(2, 3))) for _ in range(num_lines)]
             for _ in range(num_documents)]  # fmt: skip
    return "\n\n".join("\n".join(document) for document in lines) + "\n"


@pytest.fixture
def look(tmp_path):
    def looked(text, vocabulary=UNCASED, **changes):
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        settings = BuildSettings(**{"max_length": 64, **changes})
        return survey([tmp_path / "a.txt"], vocabulary=vocabulary, settings=settings)

    return looked


def test_nothing_is_said_of_a_good_corpus(look):
    found = look(good_text())
    assert list(warnings_of(found)) == []
    told = report(found)
    assert told.endswith("\n\nNothing looks wrong.")
    lines = {line[:24].strip(): line[24:].split() for line in told.splitlines()}
    assert lines["documents"] == ["30"]
    assert lines["[UNK] of the pieces"] == ["0.00%"]
    assert float(lines["with capitals"][0].rstrip("%")) > 10
    rows = {line[:28].strip(): line[28:].split() for line in told.splitlines()}
    assert rows["at 64 positions, a pass"] == [
        *("records", "label", "1", "padding", "too", "long", "cut", "off")
    ]
    assert rows["nsp"][1] == "50.00%"
    assert rows["full-sentences"][1] == "-"
    assert rows["the original"][3:] == ["-", "-"]


def fixed_width(text):
    return "\n\n".join(textwrap.fill(line, 72) for line in text.splitlines() if line)


WRONG = {
    "blank lines everywhere": (
        lambda text: text.replace(".", ".\n\n"),
        r"100% of the documents have one sentence\. A blank line ends a document: is there one",
    ),
    "one document": (
        lambda text: text.replace("\n\n", "\n"),
        r"There is one document only\. .* put a blank line between documents",
    ),
    "few documents": (
        lambda text: text.replace("\n\n", "\n", 27),
        "There are only 3 documents",
    ),
    "fixed width": (fixed_width, r"In \d\d% of the lines a sentence goes on that began in the"),
    "markup": (
        lambda text: text.replace("the cats", "the <i>cats</i>"),
        r"100\.0% of the lines hold markup",
    ),
    "misread": (
        lambda text: text.replace("the cats", "the catsâ€™"),
        r"100\.0% of the lines look misread",
    ),
    "numbers": (
        lambda text: text.replace("the cats", "12345678901234567890123456789012345678901234567890"),
        r"Only 3\d% of the characters are letters",
    ),
    "twice": (lambda text: f"{text}\n{text}", r"50\.0% of the lines .* stood there before"),
    "unknown words": (
        lambda text: text.replace("the cats", "the zyx"),
        r"\d\.\d% of the pieces are \[UNK\], words that the vocabulary cannot spell \(zyx\)",
    ),
    "no full stops": (
        lambda text: text.replace(". ", " ").replace(".", ""),
        r"100\.0% of the sentences are longer than a record of 32 positions",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_classic_mistakes_are_told_in_words(look, name):
    spoil, told = WRONG[name]
    found = look(spoil(good_text()), max_length=32)
    warnings = list(warnings_of(found))
    assert len([each for each in warnings if re.match(told, each)]) == 1
    assert report(found).count("warning: ") == len(warnings)
    assert "Nothing looks wrong" not in report(found)


@pytest.mark.parametrize(
    ("vocabulary", "lowercase", "told"),
    [
        (UNCASED, True, None),
        (CASED, False, None),
        (CASED, True, "This is a cased vocabulary: add --cased."),
        (UNCASED, False, "This is an uncased vocabulary: leave out --cased."),
    ],
)
def test_the_case_of_the_vocabulary(look, vocabulary, lowercase, told):
    warnings = list(warnings_of(look(good_text(), vocabulary, lowercase=lowercase)))
    if told is None:
        assert warnings == []
    else:
        assert [each.endswith(told) for each in warnings] == [True]


def test_short_documents_mean_padding(look):
    (warning,) = warnings_of(look(good_text(200, 1), max_length=512))
    assert warning.startswith("91%") and "of all positions will be padding" in warning


def test_a_very_long_document(look, monkeypatch):
    monkeypatch.setattr(advice, "LONG_DOCUMENT", 2_000)
    (warning,) = warnings_of(look(good_text(num_lines=50)))
    assert warning.startswith("The longest document has over 0.0 million characters")


def test_repairs_are_told(tmp_path):
    (tmp_path / "a.txt").write_bytes(good_text().encode() + b"Ada sees caf\xe9 maps.\n")
    found = survey([tmp_path / "a.txt"], vocabulary=UNCASED, settings=BuildSettings(max_length=64))
    warnings = list(warnings_of(found))
    assert "a.txt, line 390" in warnings[0]
    assert "--errors" in warnings[1]
    assert len(warnings) == 2


def test_without_a_vocabulary_the_report_says_what_is_missing(look):
    told = report(look(good_text(), None))
    assert "Give a vocabulary by --vocab" in told
    assert "[UNK] of the pieces" not in told


def test_a_sample_is_called_one(look):
    found = look(good_text())
    found.is_whole, found.num_bytes = False, 50 * found.text_bytes
    lines = report(found).splitlines()
    assert re.fullmatch(r"text read +0\.\d\d MB of \d\.\d\d MB, spread evenly", lines[0])
    assert lines[1].split() == ["documents", "30,", "about", "1,500", "in", "all"]
