"""Files in CoNLL format, the TFDS builder, entities, and the scores of conlleval.pl."""

import pytest
import tensorflow_datasets as tfds

from bert_keras.downstream.ner.task import NER_TASK, POS_TASK, entity_scores, read_conll
from bert_keras.errors import InputError
from bert_keras.kinds.words import Sentence, find_entities

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


CONLLU = """# text = Time flies. It's
1\tTime\ttime\tNOUN\tNN\t_\t2\tnsubj\t_\t_
2\tflies\tfly\tVERB\tVBZ\t_\t0\troot\t_\t_

1-2\tGo on\t_\t_\t_\t_\t_\t_\t_\t_
1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
1.1\tit\tit\tPRON\tPRP\t_\t_\t_\t_\t_
"""


@pytest.mark.parametrize("text", ["Time\tNOUN\nflies\tVERB\n\nGo\tVERB\n", CONLLU])
def test_parts_of_speech_are_entities_of_one_word(tmp_path, text):
    path = file_of(tmp_path, text)
    sentences = POS_TASK.read(path)
    assert [each.words for each in sentences] == [("Time", "flies"), ("Go",)]
    assert [each.tags for each in sentences] == [("NOUN", "VERB"), ("VERB",)]
    assert POS_TASK.with_labels_of(sentences).labels == ("NOUN", "VERB")
    scores = POS_TASK.score(sentences, [("NOUN", "NOUN"), ("VERB",)])
    assert POS_TASK.metric == "accuracy" and scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["VERB recall"] == 0.5
    with pytest.raises(InputError):
        NER_TASK.read(path)
    path = file_of(tmp_path, text.replace("NOUN", "_").replace("VERB", "_"))
    assert POS_TASK.read(path, split="test")[0].tags is None
    with pytest.raises(InputError):
        POS_TASK.read(path)


def test_invalid_files_are_refused(tmp_path):
    texts = {"a O\nb\n": ", line 2", "a NN O\n\nNew York NN O\n": ", line 3", "a B-\n": ", line 1"}
    for text, place in {**texts, "-DOCSTART- O\n\n": "", "a O\n": ""}.items():
        path = file_of(tmp_path, text)
        with pytest.raises(InputError, match=f"{path}{place}"):
            NER_TASK.read(path)


@pytest.fixture
def builder(tmp_path, monkeypatch):
    lines = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nsaid VBD B-VP O\n\nRome NNP B-NP B-LOC\n\n"
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(lines)
    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "download_and_extract", lambda manager, url: tmp_path)
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))
    return "tfds:conll2003"


def test_the_conll_2003_builder_is_read(builder):
    files = NER_TASK.files(builder)
    assert files == {split: f"{builder}:{split}" for split in ("train", "dev", "test")}
    expected = [(("EU", "said"), ("B-ORG", "O"), 0), (("Rome",), ("B-LOC",), 0)]
    for split, path in files.items():
        read = NER_TASK.read(path, split=split)
        assert sorted((s.words, s.tags, s.document) for s in read) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("I-PER I-PER B-PER", [(0, 2, "PER"), (2, 3, "PER")]),  # IOB1
        ("O I-PER I-LOC I-LOC", [(1, 2, "PER"), (2, 4, "LOC")]),  # broken BIO2
        ("B-PER I-LOC B-LOC I-PER", [(0, 1, "PER"), (1, 2, "LOC"), (2, 3, "LOC"), (3, 4, "PER")]),
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
        ("O O", []),
    ],
)
def test_entities_are_read_from_tags(tags, expected):
    assert list(find_entities(tags.split())) == expected


# The output of conlleval.pl (2004-01-26) for sentences with true and predicted tags, separated by
# "|": accuracy, precision, recall and F1, then the last three for each type.
TABLE = [
    (
        "O B-PER I-creative-work I-LOC I-PER",
        "I-creative-work B-PER I-creative-work I-LOC B-PER",
        (60.0, 80.0, 100.0, 88.89),
        {"LOC": (100, 100, 100), "PER": (100, 100, 100), "creative-work": (50, 100, 66.67)},
    ),
    (
        "O O O O O | O O",
        "B-creative-work I-PER B-creative-work I-PER B-PER | O B-PER",
        (14.29, 0.0, 0.0, 0.0),
        {"PER": (0, 0, 0), "creative-work": (0, 0, 0)},
    ),
]


@pytest.mark.parametrize(("gold", "predicted", "overall", "of_types"), TABLE)
def test_scores_equal_those_of_conlleval(gold, predicted, overall, of_types):
    scores = entity_scores(*([s.split() for s in tags.split("|")] for tags in (gold, predicted)))
    names = ("accuracy", "precision", "recall", "f1")
    expected = dict(zip(names, overall, strict=True))
    for kind, values in of_types.items():
        expected |= {f"{kind} {name}": v for name, v in zip(names[1:], values, strict=True)}
    assert {name: round(100 * value, 2) for name, value in scores.items()} == expected
