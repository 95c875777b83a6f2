"""Pages of evaluations: tables, marked texts and escaping for each kind of task."""

import html
import re

import numpy as np
import pytest

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.ner.task import NerTask
from bert_keras.downstream.sentences.pairs import SentencePair, SentencePairsTask
from bert_keras.downstream.sentences.retrieval import QueryExample, Ranking, RetrievalTask
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.downstream.swag import SWAG_TASK, SwagExample
from bert_keras.kinds.choice import ChoicePrediction
from bert_keras.kinds.classifier import LabelPrediction
from bert_keras.kinds.span import Candidate, Prediction
from bert_keras.kinds.windows import Answer, Question
from bert_keras.kinds.words import Sentence
from bert_keras.reports.evaluation import evaluation_page


def texts_in(text, tag):
    """The text of each of these elements."""
    found = re.findall(rf"<(?:{tag})\b.*?</(?:{tag})>", text, re.S)
    return [html.unescape(re.sub("<[^>]*>", "", each)) for each in found]


class Page:
    """A page: `tables` are rows of cell texts, `marks` are (class, text)."""

    def __init__(self, text):
        tables = re.findall("<table.*?</table>", text, re.S)
        rows = (re.findall("<tr.*?</tr>", table, re.S) for table in tables)
        self.tables = [[texts_in(row, "t[dh]") for row in each] for each in rows]
        marks = re.findall('<mark class="(.*?)">(.*?)</mark>', text, re.S)
        parts = ((kind, re.split("<[^>]*>", inner)) for kind, inner in marks)
        self.marks = [(kind, html.unescape(each)) for kind, cut in parts for each in cut if each]
        self.text = text


@pytest.fixture
def page_of(tmp_path):
    def page_of(task, examples, predictions):
        path = tmp_path / "page.html"
        scores = task.score(examples, predictions)
        found = task.findings(examples, predictions)
        counts = {"num_examples": len(examples), "scores": scores}
        evaluation_page("a task", found, source=["Model: <m>"], **counts, path=path)
        return Page(path.read_text(encoding="utf-8"))

    return page_of


def texts(labels):
    return [
        TextExample((f"text {number} <b>",), label, f"dev.tsv, line {number + 2}")
        for number, label in enumerate(labels)
    ]


def test_errors_are_sorted_by_probability(page_of):
    task = ClassificationTask(name="classification", labels=("<no>", "yes"))
    predicted = [("<no>", 0.9), ("yes", 0.6), ("yes", 0.8), ("<no>", 0.7)]
    predictions = [LabelPrediction(label, np.array([p, 1 - p])) for label, p in predicted]
    page = page_of(task, texts(["<no>", "<no>", "<no>", "yes"]), predictions)
    assert "<li>Model: &lt;m&gt;</li>" in page.text and "<b>0.2500 ± 0.2357</b>" in page.text
    assert "4 examples are few" in page.text
    confusion, labels, errors = page.tables
    assert confusion[1:] == [["<no>", "1 33.3%", "2 66.7%", "3"], ["yes", "1 100.0%", "0 ", "1"]]
    assert labels[1] == ["<no>", "0.5000", "0.3333", "0.4000", "3", "2"]
    assert errors == [
        ["example", "text", "gold", "predicted", "probability"],
        ["line 4", "text 2 <b>", "<no>", "yes", "0.8000"],
        ["line 5", "text 3 <b>", "yes", "<no>", "0.7000"],
        ["line 3", "text 1 <b>", "<no>", "yes", "0.6000"],
    ]
    assert "text 2 &lt;b&gt;" in page.text and "<script" not in page.text


def test_examples_with_several_labels(page_of):
    task = ClassificationTask(name="multi-label", kind="many", labels=("a", "b", "c"))
    predictions = [LabelPrediction(("a", "c")), LabelPrediction(("b",))]
    labels, errors = page_of(task, texts([("a", "b"), ("b",)]), predictions).tables
    assert labels[2] == ["b", "1.0000", "0.5000", "0.6667", "2", "1"]
    assert errors[1:] == [["line 2", "text 0 <b>", "a", "b", "c"]]


def test_regression(page_of):
    task = ClassificationTask(name="regression", kind="number", labels=("score",))
    predictions = [LabelPrediction(value) for value in (1.5, 2.0, 5.0)]
    page = page_of(task, texts([1.0, 2.0, 3.0]), predictions)
    assert [row[-1] for row in page.tables[0]] == ["difference", "2.00", "0.50"]


def test_multiple_choice(page_of):
    swag_examples = [SwagExample("He eats.", "She", ("a & b", "runs", "c", "d"), 1)] * 2
    chosen = [ChoicePrediction(0, [0.7, 0.1, 0.1, 0.1]), ChoicePrediction(1, [0.1, 0.7, 0.1, 0.1])]
    page = page_of(SWAG_TASK, swag_examples, chosen)
    assert page.tables[0][2] == ["1", "1 50.0%", "1 50.0%", "0 ", "0 ", "2"]
    assert page.marks == [("bad", "a & b"), ("good", "runs")]
    assert page.tables[1][1][0] == "He eats. She"


def answer(text, probability, odds=None):
    return Prediction(text, odds, (Candidate(text, probability, 1.0, 1.0),))


def test_answers_are_marked_in_the_context(page_of):
    context = "x" * 400 + " Denver Broncos came, and Denver left." + "y" * 400
    answers = (Answer("Denver Broncos", 401),)
    question = Question(id="1", question="Who came?", context=context, answers=answers)
    predictions = [answer("Broncos came", 0.25), answer("Denver Broncos", 0.5)]
    page = page_of(SQUAD_TASKS["squad1"], [question] * 2, predictions)
    (half,) = page.tables[0][1:]
    assert half[1:] == ["Denver Broncos", "Broncos came", "0.2500", "0.50"]
    assert page.marks == [("good", "Denver "), ("both", "Broncos"), ("bad", " came")]
    assert half[0].startswith("Who came?… xxx") and half[0].endswith("yyy …")


def test_unanswerable_questions(page_of):
    answerable = Question(id="1", question="q", context="some text", answers=(Answer("some", 0),))
    unanswerable = Question(id="2", question="q", context="some text", is_impossible=True)
    predictions = [answer("", 0.9, 1.0), answer("text", 0.8, -1.0), answer("some", 0.7, -2.0)]
    page = page_of(SQUAD_TASKS["squad2"], [answerable, unanswerable, answerable], predictions)
    confusion = page.tables[0][1:]
    assert confusion == [["answer", "1 50.0%", "1 50.0%", "2"], ["none", "1 100.0%", "0 ", "1"]]
    assert [row[1:3] for row in page.tables[1][1:]] == [["some", "none"], ["none", "text"]]


def test_entities(page_of):
    words = ("Ada", "Lovelace", "saw", "<London>")
    sentences = [Sentence(words, ("B-PER", "I-PER", "O", "B-LOC"), 0, 7)] * 2
    tags = [("B-PER", "O", "O", "B-LOC"), sentences[0].tags]
    page = page_of(NerTask(name="ner", max_length=16), sentences, tags)
    types, confusion, errors = page.tables
    assert types[2] == ["PER", "0.5000", "0.5000", "0.5000", "2", "2"]
    assert confusion[2] == ["PER", "0 ", "1 50.0%", "1 50.0%", "2"]
    assert errors[1][0] == "line 7"
    assert page.marks == [
        *[("bad", "Ada Lovelace "), ("bad", "PER"), ("good", "<London> "), ("good", "LOC")],
        *[("bad", "Ada "), ("bad", "PER"), ("good", "<London> "), ("good", "LOC")],
    ]


def test_sentence_pairs_have_ranks(page_of):
    task = SentencePairsTask(name="sentence-pairs")
    pairs = [SentencePair(("a", f"<{n}>"), float(n), f"dev.tsv, line {n + 2}") for n in range(3)]
    page = page_of(task, pairs, [0.2, 0.6, 0.5])
    (errors,) = page.tables
    assert errors[1] == ["line 3", "a", "<1>", "1.00", "0.60", "2.00", "3.00"]
    assert len(errors) == 3


def test_queries_with_a_wrong_first_passage(page_of):
    task = RetrievalTask(name="retrieval", cutoff=2)
    examples = [QueryExample(query, ("<yes>",)) for query in ("one", "two", "three")]
    rankings = [
        Ranking(("<yes>", "no"), (0.9, 0.1), (0.9,)),
        Ranking(("no", "<yes>"), (0.75, 0.5), (0.5,)),
        Ranking(("no", "other"), (0.75, 0.5), (0.25,)),
    ]
    page = page_of(task, examples, rankings)
    (errors,) = page.tables
    assert errors[1:] == [
        ["three", "no 0.750", "<yes> 0.250", "after 2"],
        ["two", "no 0.750", "<yes> 0.500", "2"],
    ]
    assert page.marks == 2 * [("bad", "no"), ("good", "<yes>")]
    assert "2 of 3 predictions are wrong" in page.text
