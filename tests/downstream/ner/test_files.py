"""Files in CoNLL format: sentences, tags, documents and error messages."""

import sys

import pytest

from bert_keras.downstream.ner.files import Sentence, read_conll, read_tfds
from bert_keras.errors import InputError

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER

-DOCSTART- -X- O O

Rome NNP I-NP I-LOC
"""
WNUT_17 = "\ufeffEmpire\tB-location\nState\tI-location\n\t\n\n:\tO"


def file_of(tmp_path, text: str):
    path = tmp_path / "words.conll"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_conll_2003_files_are_read(tmp_path):
    assert read_conll(file_of(tmp_path, CONLL_2003)) == [
        Sentence(("EU", "rejects"), ("I-ORG", "O"), document=1, line=3),
        Sentence(("Peter",), ("I-PER",), document=1, line=6),
        Sentence(("Rome",), ("I-LOC",), document=2, line=10),
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_wnut_17_files_are_read(tmp_path, line_end):
    """The file has a byte order mark, a line with only a tab, and no line end at its end."""
    assert read_conll(file_of(tmp_path, WNUT_17.replace("\n", line_end))) == [
        Sentence(("Empire", "State"), ("B-location", "I-location"), document=0, line=1),
        Sentence((":",), ("O",), document=0, line=5),
    ]


def test_files_may_have_words_without_tags(tmp_path):
    sentences = read_conll(file_of(tmp_path, "a\n\u00a0\n\nb\n"))
    assert [(s.words, s.tags) for s in sentences] == [(("a", "\u00a0"), None), (("b",), None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "line 2 has 1 column; line 1 has 2"),
        ("a NN O\n\nNew York NN O\n", "line 3 has 4 columns; line 1 has 3"),
        ("a\tO\n\tO\n", "line 2 has 1 column; line 1 has 2"),
        ("a O\nb S-PER\n", "line 2 ends in 'S-PER'; expected the tag"),
        ("a B-\n", "line 1 ends in 'B-'; expected the tag"),
        ("a o\n", "line 1 ends in 'o'; expected the tag"),
        ("", "contains no sentence"),
        ("-DOCSTART- O\n\n", "contains no sentence"),
    ],
)
def test_invalid_files_are_refused(tmp_path, text, message):
    path = file_of(tmp_path, text)
    with pytest.raises(InputError, match=message) as error:
        read_conll(path)
    assert str(error.value).startswith(str(path))


def test_rows_of_a_builder_are_read(monkeypatch):
    """The last row of the builder has no words if the file ends with an empty line."""
    rows = [{"tokens": ["EU", "."], "pos": ["NNP", "."], "ner": ["B-ORG", "O"]}]
    rows.append({"tokens": [], "pos": [], "ner": []})
    module = sys.modules["bert_keras.downstream.ner.files"]
    monkeypatch.setattr(module, "tfds_rows", lambda path: rows if "2003" in path else [{"x": 1}])
    assert read_tfds("tfds:conll2003:dev") == [Sentence(("EU", "."), ("B-ORG", "O"), 0, 1)]
    with pytest.raises(InputError, match="tfds:glue/sst2:dev has the columns x; expected tokens"):
        read_tfds("tfds:glue/sst2:dev")


def test_the_shared_wnut_files_are_read(shared_data):
    counts = {}
    for split in ("train", "dev", "test"):
        sentences = read_conll(shared_data / f"ner/wnut17/{split}.conll")
        counts[split] = (len(sentences), sum(len(s.words) for s in sentences))
    assert counts == {"train": (3394, 62730), "dev": (1009, 15733), "test": (1287, 23394)}
