import random
import re
import textwrap

import pytest

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.inspect import advice
from tfrecords_tools.inspect.advice import report, warnings_of
from tfrecords_tools.inspect.survey import survey
from tfrecords_tools.settings import BuildSettings

NAMES = ["ada", "ben", "cy", "dora", "eli", "fay", "gus", "hana"]
VERBS = ["sees", "likes", "helps", "calls", "meets"]
WORDS = [*NAMES, *VERBS, "the", "cats", "and", "dogs", "of", "maps", ".", ","]
UNCASED = Vocabulary((*SPECIAL_TOKENS, *WORDS))
CASED = Vocabulary((*SPECIAL_TOKENS, *WORDS, *(name.title() for name in NAMES)))


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
def survey_text(tmp_path):
    def survey_of(text, vocabulary=UNCASED, **changes):
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        settings = BuildSettings(**{"max_length": 64, **changes})
        return survey([tmp_path / "a.txt"], vocabulary=vocabulary, settings=settings)

    return survey_of


def test_good_corpus_has_no_warnings(survey_text):
    counts = survey_text(good_text())
    assert list(warnings_of(counts)) == []
    text = report(counts)
    assert text.endswith("\n\nNothing looks wrong.")
    lines = {line[:24].strip(): line[24:].split() for line in text.splitlines()}
    assert lines["documents"] == ["30"]
    assert lines["[UNK] of the tokens"] == ["0.00%"]
    assert float(lines["if cased"][0].rstrip("%")) > 10
    rows = {line[:28].strip(): line[28:].split() for line in text.splitlines()}
    assert rows["at 64 positions, one pass"] == [
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
        r"100% of the documents have one sentence\. A blank line ends a document\. Is there one",
    ),
    "one document": (
        lambda text: text.replace("\n\n", "\n"),
        r"The corpus has only one document\. .* put a blank line between documents",
    ),
    "few documents": (
        lambda text: text.replace("\n\n", "\n", 27),
        "The corpus has only 3 documents",
    ),
    "fixed width": (fixed_width, r"\d\d% of the lines continue a sentence of the preceding line"),
    "markup": (
        lambda text: text.replace("the cats", "the <i>cats</i>"),
        r"100\.0% of the lines contain markup",
    ),
    "misread": (
        lambda text: text.replace("the cats", "the catsâ€™"),
        r"100\.0% of the lines look wrongly decoded",
    ),
    "numbers": (
        lambda text: text.replace("the cats", "12345678901234567890123456789012345678901234567890"),
        r"Only 3\d% of the characters are letters",
    ),
    "twice": (lambda text: f"{text}\n{text}", r"50\.0% of the lines .* repeat an earlier line"),
    "unknown words": (
        lambda text: text.replace("the cats", "the zyx"),
        r"\d\.\d% of the tokens are \[UNK\], because the vocabulary does not cover .* \(zyx\)",
    ),
    "no full stops": (
        lambda text: text.replace(". ", " ").replace(".", ""),
        r"100\.0% of the sentences are longer than a record of 32 positions",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_common_mistakes_have_warnings(survey_text, name):
    spoil, message = WRONG[name]
    counts = survey_text(spoil(good_text()), max_length=32)
    warnings = list(warnings_of(counts))
    assert len([each for each in warnings if re.match(message, each)]) == 1
    assert report(counts).count("warning: ") == len(warnings)
    assert "Nothing looks wrong" not in report(counts)


@pytest.mark.parametrize(
    ("vocabulary", "lowercase", "message"),
    [
        (UNCASED, True, None),
        (CASED, False, None),
        (CASED, True, "This is a cased vocabulary: add --cased."),
        (UNCASED, False, "This is an uncased vocabulary: leave out --cased."),
    ],
)
def test_wrong_case_of_the_vocabulary_has_a_warning(survey_text, vocabulary, lowercase, message):
    warnings = list(warnings_of(survey_text(good_text(), vocabulary, lowercase=lowercase)))
    if message is None:
        assert warnings == []
    else:
        assert [each.endswith(message) for each in warnings] == [True]


def test_padding_of_short_documents_has_a_warning(survey_text):
    (warning,) = warnings_of(survey_text(good_text(200, 1), max_length=512))
    assert warning.startswith("91%") and "of all positions will be padding" in warning


def test_very_long_document_has_a_warning(survey_text, monkeypatch):
    monkeypatch.setattr(advice, "LONG_DOCUMENT", 2_000)
    (warning,) = warnings_of(survey_text(good_text(num_lines=50)))
    assert warning.startswith("The longest document has over 0.0 million characters")


def test_repairs_are_reported(tmp_path):
    (tmp_path / "a.txt").write_bytes(good_text().encode() + b"Ada sees caf\xe9 maps.\n")
    counts = survey([tmp_path / "a.txt"], vocabulary=UNCASED, settings=BuildSettings(max_length=64))
    warnings = list(warnings_of(counts))
    assert "a.txt, line 390" in warnings[0]
    assert "--errors" in warnings[1]
    assert len(warnings) == 2


def test_report_without_a_vocabulary_asks_for_one(survey_text):
    text = report(survey_text(good_text(), None))
    assert "Name a vocabulary with --vocab" in text
    assert "[UNK] of the tokens" not in text


def test_report_states_that_a_sample_was_read(survey_text):
    counts = survey_text(good_text())
    counts.is_complete, counts.num_bytes = False, 50 * counts.text_bytes
    lines = report(counts).splitlines()
    assert re.fullmatch(r"text read +0\.\d\d MB of \d\.\d\d MB, spread evenly", lines[0])
    assert lines[1].split() == ["documents", "30,", "about", "1,500", "in", "all"]
