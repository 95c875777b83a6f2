import dataclasses
import json
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.batches import Predictor
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.errors import InputError
from bert_keras.exporting.saved_model import write_saved_model
from bert_keras.exporting.signatures.question_answering import (
    EXPORTER,
    served_question_answering,
    signatures,
)
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertQuestionAnswering
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'"
VOCABULARY = Vocabulary(
    (*SPECIAL_TOKENS, *LETTERS, *(f"##{each}" for each in LETTERS), "the", "北", "京", "ß", "😀")
)
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


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, num_layers=2, num_heads=2, max_positions=64
    )
    model = BertQuestionAnswering(config)
    for weight in model.weights:  # initial weights give nearly equal outputs
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return model


def export(model, folder, **changes):
    arguments = {"tokenizer": WordPieceTokenizer(VOCABULARY), "max_length": 40}
    make = partial(served_question_answering, task=TASK)
    return write_saved_model(model, folder, make=make, **{**arguments, **changes})


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return export(model, tmp_path_factory.mktemp("saved_models") / "squad" / "1")


def offline(model, examples, task=TASK):
    questions = [
        Question(id=str(index), question=question, context=context)
        for index, (question, context) in enumerate(examples)
    ]
    windows = task.encode(questions, WordPieceTokenizer(VOCABULARY))
    outputs, _ = Predictor(model)(windows, batch_size=8)
    return windows, task.predictions(questions, windows, outputs)


def request(examples):
    questions, contexts = map(list, zip(*examples, strict=True))
    return {
        "signature": "serving_default",
        "inputs": {"question": questions, "context": contexts},
    }


def test_signatures_are_frozen(folder, assert_frozen):
    assert_frozen("question_answering", folder)


def test_answers_equal_those_of_evaluation(model, folder):
    windows, predictions = offline(model, EXAMPLES)
    assert max(len(windows.of_question(number)) for number in range(5)) > 8
    inputs, _ = windows.batch(np.arange(2))
    tensors = {name: array.tolist() for name, array in inputs.items()}
    alone = [("why?", ""), ("what?", " \u200b")]

    together, first, empty, logits = run_requests(
        folder,
        [
            request([*EXAMPLES, *alone]),
            request(EXAMPLES[:1]),
            request(alone),
            {"signature": "tensors", "inputs": tensors},
        ],
    )
    assert set(together) == OUTPUTS
    assert together["answer"] == [*(each.text for each in predictions), "", ""]
    for (_, context), prediction, text, start, end, score in zip(
        EXAMPLES,
        predictions,
        *(together[name][:5] for name in ("answer", "start", "end", "score")),
        strict=True,
    ):
        assert context[start:end] == text == prediction.text
        assert score == pytest.approx(prediction.candidates[0].score, abs=1e-5)
    assert first["answer"] == together["answer"][:1] and first["start"] == together["start"][:1]
    assert empty["answer"] == ["", ""] and empty["start"] == empty["end"] == [-1, -1]
    assert empty["score"] == [np.finfo(np.float32).min] * 2
    expected = model(inputs, training=False)
    is_real = inputs["input_mask"] > 0
    assert not is_real.all()
    for end in ("start", "end"):
        array = np.float32(logits[f"{end}_logits"])
        np.testing.assert_allclose(array[is_real], expected[end][is_real], atol=1e-5)
        assert (array[~is_real] == np.finfo(np.float32).min).all()


@pytest.mark.slow
def test_unlikely_answers_are_empty_by_the_threshold_of_the_metadata(model, tmp_path):
    task = dataclasses.replace(TASK, name="squad2", version="2.0")
    _, predictions = offline(model, EXAMPLES, task)
    odds = sorted(each.null_odds for each in predictions)
    task = dataclasses.replace(task, null_threshold=(odds[1] + odds[2]) / 2)
    _, predictions = offline(model, EXAMPLES, task)
    assert [not each.text for each in predictions].count(True) == 3
    metadata = ModelMetadata(
        model="BertQuestionAnswering",
        config=model.config,
        lowercase=True,
        max_length=40,
        text_columns=task.input_names,
        task=task.settings(),
    )
    VOCABULARY.save(tmp_path / "vocab.txt")
    reader = TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=40)
    signature = signatures(model, reader, **EXPORTER.settings(metadata, "model"))["serving_default"]
    columns = {n: tf.constant(texts) for n, texts in request(EXAMPLES)["inputs"].items()}
    outputs = {name: array.numpy() for name, array in signature(**columns).items()}
    assert [text.decode() for text in outputs["answer"]] == [each.text for each in predictions]
    for number, prediction in enumerate(predictions):
        null = next(each for each in prediction.candidates if not each.text)
        best = next(each for each in prediction.candidates if each.text)
        assert outputs["no_answer_score"][number] == pytest.approx(null.score, abs=1e-5)
        assert outputs["score"][number] == pytest.approx(best.score, abs=1e-5)
        assert (outputs["start"][number] == -1) == (not prediction.text)
        assert (outputs["end"][number] == -1) == (not prediction.text)


def test_windows_without_space_for_a_passage_are_refused(model, tmp_path):
    with pytest.raises(InputError, match="max_length is 12; expected at least 13"):
        export(model, tmp_path / "squad" / "1", max_length=12)


@pytest.mark.slow
def test_answers_to_real_questions_equal_those_of_evaluation(model, folder, shared_data):
    """The weights are random; the answers equal those of evaluation."""
    articles = json.loads((shared_data / "squad/dev-v2.0.json").read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in articles[:5] for paragraph in article["paragraphs"][:4]]
    examples = [(p["qas"][0]["question"], p["context"]) for p in paragraphs]
    _, predictions = offline(model, examples)
    (outputs,) = run_requests(folder, [request(examples)])
    assert outputs["answer"] == [each.text for each in predictions]
    assert outputs["answer"] == [
        context[start:end]
        for (_, context), start, end in zip(examples, outputs["start"], outputs["end"], strict=True)
    ]
