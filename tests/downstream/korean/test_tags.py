"""KLUE-NER and Naver NER: official files and scores, tags of characters, serving, and errors."""

import dataclasses

import numpy as np
import pytest

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.korean.tags import KLUE_LABELS as LABELS
from bert_keras.downstream.korean.tags import klue_ner_scores
from bert_keras.errors import InputError
from bert_keras.kinds.words import Sentence
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.downstream.korean.conftest import TAGGED, tagged_characters

KLUE = dataclasses.replace(named_task("klue-ner"), max_length=32)
NAVER = named_task("naver-ner")


def test_the_characters_of_klue_are_read_and_written_with_spaces(korean_folder, tmp_path):
    sentences = KLUE.read(KLUE.files(korean_folder)["train"])
    rows = [[*zip(each.words, each.tags, strict=True)] for each in sentences]
    assert rows == [*map(tagged_characters, TAGGED)]
    assert " " in sentences[0].words and sentences[0].line == 3
    (tmp_path / "a.tsv").write_text("##c\n가\tO\n\t\n나\tB-PS\n", encoding="utf-8")
    assert [each.words for each in KLUE.read(tmp_path / "a.tsv")] == [("가",), ("나",)]
    KLUE.write_predictions(tmp_path / "p", sentences, [each.tags for each in sentences])
    assert (tmp_path / "p").read_text("utf-8").startswith("한\tB-LC\tB-LC\n")


def test_the_tags_of_naver_are_reversed(korean_folder):
    sentences = NAVER.read(NAVER.files(korean_folder)["train"])
    assert sentences[0].words == ("한들마을", "도서관은", "2019년", "5월에", "열었다", ".")
    assert sentences[0].tags == ("B-LOC", "O", "B-DAT", "I-DAT", "O", "O")
    assert [each.line for each in sentences] == [1, 2]


def test_errors_name_the_file_and_the_line(tmp_path):
    texts = ((KLUE, "가\tB-XX"), (KLUE, "나나\tO"), (NAVER, "가 나\tO"), (NAVER, "가\tPER-X"))
    for task, text in texts:
        (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"a\.tsv, line 1 "):
            task.read(tmp_path / "a.tsv")
    (tmp_path / "a.tsv").write_text("\n")
    for task in (KLUE, NAVER):
        with pytest.raises(InputError):
            task.read(tmp_path / "a.tsv")


def test_tags_of_tokens_are_those_of_their_first_character():
    """경찰은 is one token; 박 and ##씨 are two; 蔡 is unknown."""
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "경찰은", "또", "박", "##씨"))
    tags = ("B-OG", "I-OG", "O", "O", "O", "O", "B-PS", "O", "O", "B-LC")
    sentence = Sentence(tuple("경찰은 또 박씨 蔡"), tags, 0, 1)
    encoded = KLUE.encode([sentence], WordPieceTokenizer(vocabulary, lowercase=False))
    inputs, label_ids, weights = encoded.batch(np.arange(1))
    tokens = [vocabulary.tokens[each] for each in inputs["input_ids"][0]]
    assert tokens == ["[CLS]", "경찰은", "또", "박", "##씨", "[UNK]", "[SEP]"]
    expected = ["B-OG", "O", "B-PS", "O", "B-LC"]
    assert [LABELS[each] for each in label_ids[0, 1:-1]] == expected
    assert weights.tolist() == [[0, 1, 1, 1, 1, 1, 0]]
    assert encoded.spans_W2.tolist() == [[0, 3], [4, 5], [6, 7], [7, 8], [9, 10]]

    predicted = ["B-OG", "I-OG", "B-PS", "I-PS", "I-PS"]
    outputs = np.zeros((1, 7, len(LABELS)))
    for column, tag in enumerate(predicted, start=1):
        outputs[0, column, LABELS.index(tag)] = 1
    (tags,) = KLUE.predictions([sentence], encoded, [*outputs])
    expected = ["B-OG", "I-OG", "I-OG", "I-OG", "I-OG", "O", "B-PS", "I-PS", "I-PS", "I-PS"]
    assert list(tags) == expected


def test_scores_of_klue_equal_the_published_formulas():
    """Numbers of the formulas of KLUE-baseline: the F1 of each tag with [CLS] and [SEP] as O, and
    the F1 of each type of entity, in percent, for random tags."""
    rng = np.random.default_rng(5)
    tags = [[LABELS[each] for each in rng.choice(13, 40)] for _ in range(8)]
    percent = {"character_macro_f1": 8.42704033057237, "entity_macro_f1": 6.1602669361290046}
    expected = {name: each / 100 for name, each in percent.items()}
    assert klue_ner_scores(tags[:4], tags[4:]) == pytest.approx(expected, rel=1e-12)


def test_spaces_of_klue_are_not_scored():
    sentence = Sentence(tuple("가 나"), ("B-PS", "I-PS", "I-PS"), 0, 1)
    scores = KLUE.score([sentence], [("B-PS", "O", "I-PS")])
    assert scores == {"character_macro_f1": 1, "entity_macro_f1": 1}
