"""Answers in a graph, and their parts, equal those of evaluation."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import BertQuestionAnswering
from bert_keras.downstream.predictor import Predictor
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.errors import InputError
from bert_keras.exporting.signatures.question_answering import best_spans, passages_of
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.verify import run_requests
from bert_keras.kinds.span import find_best_spans as offline_spans
from bert_keras.kinds.windows import Question
from bert_keras.runs.export import export
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import assert_served, letter_vocabulary, tiny_config, with_noise

VOCABULARY = letter_vocabulary("the", "北", "京", "ß", "😀")
TOKENIZER = WordPieceTokenizer(VOCABULARY)
TASK = dataclasses.replace(
    SQUAD_TASKS["squad1"], max_length=40, stride=11, max_question_length=9, max_answer_length=6
)
EXAMPLES = [
    ("who?", "It was Zoe\u0308, in Cafe\u0301 北京 ß 😀 İ\u200b!"),
    ("when was the question asked, and why?", "in 1984, " * 3 + "Jose\u0301 said, " * 30),
    ("", "x"),
    ("where?", "\u00a0 the \x00\ufffd end\u0301\n"),
    ("what?", " ".join(str(number * number) for number in range(150))),
]
OUTPUTS = {"answer", "start", "end", "score", "no_answer_score"}
LOWEST = np.finfo(np.float32).min


@pytest.fixture(scope="module")
def model():
    return with_noise(BertQuestionAnswering(tiny_config(vocab_size=len(VOCABULARY))))


def exported(model, folder, task=TASK):
    fields = {"text_columns": task.input_names, "task": task.settings()}
    model.metadata = dataclasses.replace(model.new_metadata(), max_length=40, **fields)
    return export(model, folder, tokenizer=TOKENIZER)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return exported(model, tmp_path_factory.mktemp("saved_models") / "squad" / "1")


def offline(model, examples, task=TASK):
    questions = [
        Question(id=str(index), question=question, context=context)
        for index, (question, context) in enumerate(examples)
    ]
    windows = task.encode(questions, TOKENIZER)
    outputs, _ = Predictor(model)(windows, batch_size=8)
    return windows, task.predictions(questions, windows, outputs)


def request(examples):
    questions, contexts = map(list, zip(*examples, strict=True))
    inputs = {"question": questions, "context": contexts}
    return {"signature": "serving_default", "inputs": inputs}


def test_answers_equal_those_of_evaluation(model, folder, assert_frozen):
    assert_frozen("question_answering", folder)
    windows, predictions = offline(model, EXAMPLES)
    assert max(len(windows.of_question(number)) for number in range(5)) > 8
    inputs, _ = windows.batch(np.arange(2))
    alone = [("why?", ""), ("what?", " \u200b")]
    requests = [request([*EXAMPLES, *alone]), request(EXAMPLES[:1]), request(alone)]
    together, first, empty, logits = run_requests(
        folder, [*requests, {"signature": "tensors", "inputs": inputs}]
    )
    assert set(together) == OUTPUTS
    model.tokenizer = TOKENIZER
    columns = request(EXAMPLES)["inputs"].values()
    assert_served(together, model.predict(tuple(columns)))
    assert together["answer"] == [*(each.text for each in predictions), "", ""]
    assert first["answer"] == together["answer"][:1] and first["start"] == together["start"][:1]
    assert empty["answer"] == ["", ""] and empty["start"] == empty["end"] == [-1, -1]
    assert empty["score"] == [LOWEST] * 2
    is_real = inputs["input_mask"] > 0
    assert not is_real.all()
    for end, expected in model(inputs, training=False).items():
        array = np.float32(logits[f"{end}_logits"])
        np.testing.assert_allclose(array[is_real], expected[is_real], atol=1e-5)
        assert (array[~is_real] == LOWEST).all()


@pytest.mark.slow
def test_unlikely_answers_are_empty_by_the_threshold_of_the_metadata(model, tmp_path):
    task = dataclasses.replace(TASK, name="squad2", version="2.0")
    _, predictions = offline(model, EXAMPLES, task)
    odds = sorted(each.null_odds for each in predictions)
    task = dataclasses.replace(task, null_threshold=(odds[1] + odds[2]) / 2)
    _, predictions = offline(model, EXAMPLES, task)
    assert [not each.text for each in predictions].count(True) == 3
    folder = exported(model, tmp_path / "squad2" / "1", task)
    (outputs,) = run_requests(folder, [request(EXAMPLES)])
    assert outputs["answer"] == [each.text for each in predictions]
    for number, prediction in enumerate(predictions):
        null = next(each for each in prediction.candidates if not each.text)
        best = next(each for each in prediction.candidates if each.text)
        for name, each in ("no_answer_score", null), ("score", best):
            expected = each.start_logit + each.end_logit
            assert outputs[name][number] == pytest.approx(expected, abs=1e-5)
        assert (outputs["start"][number] == -1) == (not prediction.text)


def test_fit_takes_questions_passages_and_answers(model):
    model = BertQuestionAnswering(model.config)
    fields = {"max_length": 40, "task": TASK.settings()}
    model.metadata, model.tokenizer = dataclasses.replace(model.new_metadata(), **fields), TOKENIZER
    texts = ["who?", "what?"], ["It was Zoe.", "the end"]
    answers = [(7, "Zoe"), {"text": ["end"], "answer_start": [4]}]
    assert {"start_loss", "end_loss"} < {*model.fit(texts, answers, verbose=0).history}
    with pytest.raises(InputError):
        model.fit((texts[0], texts[1][::-1]), [None, (6, "Zoe")])


def test_windows_without_space_for_a_passage_are_refused(model, tmp_path):
    with pytest.raises(InputError):
        export(model, tmp_path / "squad" / "1", tokenizer=TOKENIZER, max_length=12)


@pytest.fixture
def reader(tmp_path):
    def make(max_length):
        VOCABULARY.save(tmp_path / "vocab.txt")
        return TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=max_length)

    return make


def graph_and_offline(questions, contexts, *, reader, task):
    """Returns the best spans of the graph and of training, for logits with many ties."""
    weights = np.random.default_rng(4).integers(1, 99, (2, 1000)).astype("int32")

    def logits_of(input_ids, **_):
        positions = tf.range(tf.shape(input_ids)[1])
        start, end = (
            tf.cast((input_ids + tf.gather(row, positions)) ** 2 % 4, tf.float32) for row in weights
        )
        return {"start_logits": start, "end_logits": end}

    @tf.function(autograph=False)
    def in_graph(question, context):
        passages = passages_of(question, context, reader=reader, settings=task)
        best = best_spans(logits_of, passages, max_answer_length=task.max_answer_length)
        first_context_token = tf.gather(passages.tokens.ids.row_starts(), tf.size(question))
        return passages.inputs, passages.row_ids, best, first_context_token

    inputs, row_ids, best, shift = in_graph(tf.constant(questions), tf.constant(contexts))
    pairs = zip(questions, contexts, strict=True)
    windows = task.encode([Question(id="", question=q, context=c) for q, c in pairs], TOKENIZER)
    expected, _ = windows.batch(np.arange(len(windows)))
    for name, array in expected.items():
        np.testing.assert_array_equal(inputs[name].numpy(), array, err_msg=name)
    counts = np.bincount(row_ids.numpy(), minlength=len(questions))
    assert counts.tolist() == np.diff(windows.first_windows).tolist()
    logits = logits_of(tf.constant(expected["input_ids"]))
    columns = zip(*(each.numpy() for each in logits.values()), strict=True)
    outputs = [{"start": start, "end": end} for start, end in columns]
    rows = []
    for number, context in enumerate(contexts):
        span = next(offline_spans(windows, number, outputs, task, context=context))
        nulls = [outputs[row] for row in windows.of_question(number)]
        null = min(each["start"][0] + each["end"][0] for each in nulls)
        rows.append((span.start_logit + span.end_logit, span.first, span.last, null))
    actual = np.stack([each.numpy() for each in best], axis=1)
    # In the graph, the tokens of the questions precede those of the contexts.
    return actual - [0, shift.numpy(), shift.numpy(), 0], np.array(rows)


@pytest.mark.parametrize(
    ("max_length", "stride", "max_question_length", "max_answer_length"),
    [
        (16, 1, 4, 3),
        (17, 4, 6, 30),
        pytest.param(25, 64, 20, 5, marks=pytest.mark.slow),
        pytest.param(9, 2, 4, 2, marks=pytest.mark.slow),
    ],
)
def test_spans_equal_those_of_training(
    reader, max_length, stride, max_question_length, max_answer_length
):
    """Each context is unique, because the offline code tokenizes repeated contexts once."""
    rng = np.random.default_rng(max_length)
    contexts = [" ".join(rng.choice([*"abcd"], length)) for length in (*range(1, 40), 150, 300)]
    contexts = list(dict.fromkeys(contexts))
    questions = ["a " * (number % 11) for number in range(len(contexts))]
    limits = {"max_question_length": max_question_length, "max_answer_length": max_answer_length}
    task = dataclasses.replace(TASK, max_length=max_length, stride=stride, **limits)
    actual, expected = graph_and_offline(questions, contexts, reader=reader(max_length), task=task)
    np.testing.assert_array_equal(actual, expected)
