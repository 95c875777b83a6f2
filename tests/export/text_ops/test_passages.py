import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.text_ops.passages import best_spans, passages_of
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.tasks.squad.predictions import spans
from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.squad.windows import windows_over
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

LETTERS = "abcdefghij"
VOCABULARY = Vocabulary((*SPECIAL_PIECES, *LETTERS, *(f"##{letter}" for letter in LETTERS)))


def contexts_of(lengths, seed):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(list(LETTERS[:4]), length)) for length in lengths]


@pytest.fixture
def reader(tmp_path):
    def make(max_length):
        VOCABULARY.save(tmp_path / "vocab.txt")
        return TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=max_length)

    return make


def asked(questions, contexts, *, reader, num_values=4, **limits):
    """What the graph and what the code of training find, for logits of few values and many ties."""
    weights = np.random.default_rng(4).integers(1, 99, (2, 1000))

    def logits_of(input_ids, **_):
        places = tf.range(tf.shape(input_ids)[1])
        start, end = (
            tf.cast((input_ids + tf.gather(row, places)) ** 2 % num_values, tf.float32)
            for row in weights.astype("int32")
        )
        return {"start_logits": start, "end_logits": end}

    max_answer_length = limits.pop("max_answer_length")

    @tf.function(autograph=False)
    def found(question, context):
        passages = passages_of(question, context, reader=reader, **limits)
        best = best_spans(logits_of, passages, max_answer_length=max_answer_length)
        first_piece = tf.gather(passages.pieces.ids.row_starts(), tf.size(question))
        return passages.inputs, passages.rows.owners, best, first_piece

    inputs, owners, best, first_piece = found(tf.constant(questions), tf.constant(contexts))
    offline = WordPieceTokenizer(VOCABULARY)
    windows = windows_over(
        [Question(id="", question=q, context=c) for q, c in zip(questions, contexts, strict=True)],
        offline,
        max_length=reader.max_length,
        **limits,
    )
    expected, _ = windows.batch(np.arange(len(windows)))
    for name, array in expected.items():
        np.testing.assert_array_equal(inputs[name].numpy(), array, err_msg=name)
    counts = np.bincount(owners.numpy(), minlength=len(questions))
    assert counts.tolist() == np.diff(windows.first_windows).tolist()
    logits = logits_of(tf.constant(expected["input_ids"]))
    outputs = [
        {"start": start, "end": end}
        for start, end in zip(*(each.numpy() for each in logits.values()), strict=True)
    ]
    firsts = []
    for number in range(len(questions)):
        span = next(spans(windows, number, outputs, max_answer_length))
        null = min(
            outputs[r]["start"][0] + outputs[r]["end"][0] for r in windows.of_question(number)
        )
        firsts.append((span.start_logit + span.end_logit, span.first, span.last, null))
    shift = [0, first_piece.numpy(), first_piece.numpy(), 0]
    return np.stack([each.numpy() for each in best], axis=1) - shift, np.array(firsts)


@pytest.mark.parametrize(
    ("max_length", "stride", "max_question_length", "max_answer_length"),
    [
        (16, 1, 4, 3),
        (17, 4, 6, 30),
        pytest.param(16, 5, 4, 1, marks=pytest.mark.slow),
        pytest.param(24, 64, 20, 5, marks=pytest.mark.slow),
        pytest.param(32, 13, 9, 12, marks=pytest.mark.slow),
        pytest.param(8, 2, 4, 2, marks=pytest.mark.slow),
    ],
)
def test_spans_are_those_of_training(
    reader, max_length, stride, max_question_length, max_answer_length
):
    """Each context once: those of a text that comes again are tokenized once offline."""
    contexts = list(dict.fromkeys(contexts_of([*range(1, 40), 150, 300], seed=max_length)))
    questions = ["a " * (number % 11) for number in range(len(contexts))]
    found, expected = asked(
        questions,
        contexts,
        reader=reader(max_length),
        stride=stride,
        max_question_length=max_question_length,
        max_answer_length=max_answer_length,
    )
    # Offline numbers the pieces of contexts as they come, as the graph does behind the questions.
    np.testing.assert_array_equal(found, expected)


def test_of_spans_that_score_alike_the_first_is_taken(reader):
    found, expected = asked(
        ["a", "b"],
        ["a a " * 40, "b " * 33],
        reader=reader(16),
        num_values=1,
        stride=3,
        max_question_length=4,
        max_answer_length=7,
    )
    np.testing.assert_array_equal(found, expected)
    assert found[:, 1].tolist() == found[:, 2].tolist() == [0, 80]


def test_a_context_without_a_piece_has_no_span(reader):
    @tf.function(autograph=False)
    def found():
        passages = passages_of(
            tf.constant(["a b", "c"]),
            tf.constant([" \0", "a"]),
            reader=reader(16),
            stride=3,
            max_question_length=4,
        )

        def logits_of(input_ids, **_):
            zeros = tf.zeros_like(input_ids, tf.float32)
            return {"start_logits": zeros + 1, "end_logits": zeros}

        return best_spans(logits_of, passages, max_answer_length=7)

    found = found()
    assert found.scores.numpy().tolist() == [-np.inf, 1.0]
    assert found.null_scores.numpy().tolist() == [1.0, 1.0]
    assert found.firsts[1] == found.lasts[1] == 3
