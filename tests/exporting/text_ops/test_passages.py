import numpy as np
import pytest
import tensorflow as tf

from bert_keras.downstream.squad.answers import spans
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.squad.windows import windows_over
from bert_keras.exporting.text_ops.passages import best_spans, passages_of
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

LETTERS = "abcdefghij"
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)))


def contexts_of(lengths, seed):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(list(LETTERS[:4]), length)) for length in lengths]


@pytest.fixture
def reader(tmp_path):
    def make(max_length):
        VOCABULARY.save(tmp_path / "vocab.txt")
        return TextToInputs(tmp_path / "vocab.txt", lowercase=True, max_length=max_length)

    return make


def graph_and_offline(questions, contexts, *, reader, num_values=4, **limits):
    """Returns the best spans of the graph and of training, for logits with many ties."""
    weights = np.random.default_rng(4).integers(1, 99, (2, 1000))

    def logits_of(input_ids, **_):
        positions = tf.range(tf.shape(input_ids)[1])
        start, end = (
            tf.cast((input_ids + tf.gather(row, positions)) ** 2 % num_values, tf.float32)
            for row in weights.astype("int32")
        )
        return {"start_logits": start, "end_logits": end}

    max_answer_length = limits.pop("max_answer_length")

    @tf.function(autograph=False)
    def in_graph(question, context):
        passages = passages_of(question, context, reader=reader, **limits)
        best = best_spans(logits_of, passages, max_answer_length=max_answer_length)
        first_context_token = tf.gather(passages.tokens.ids.row_starts(), tf.size(question))
        return passages.inputs, passages.rows.row_ids, best, first_context_token

    inputs, row_ids, best, first_context_token = in_graph(
        tf.constant(questions), tf.constant(contexts)
    )
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
    counts = np.bincount(row_ids.numpy(), minlength=len(questions))
    assert counts.tolist() == np.diff(windows.first_windows).tolist()
    logits = logits_of(tf.constant(expected["input_ids"]))
    outputs = [
        {"start": start, "end": end}
        for start, end in zip(*(each.numpy() for each in logits.values()), strict=True)
    ]
    expected_spans = []
    for number in range(len(questions)):
        span = next(spans(windows, number, outputs, max_answer_length, context=contexts[number]))
        null = min(
            outputs[r]["start"][0] + outputs[r]["end"][0] for r in windows.of_question(number)
        )
        expected_spans.append((span.start_logit + span.end_logit, span.first, span.last, null))
    shift = [0, first_context_token.numpy(), first_context_token.numpy(), 0]
    return np.stack([each.numpy() for each in best], axis=1) - shift, np.array(expected_spans)


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
def test_spans_equal_those_of_training(
    reader, max_length, stride, max_question_length, max_answer_length
):
    """Each context is unique, because the offline code tokenizes repeated contexts once."""
    contexts = list(dict.fromkeys(contexts_of([*range(1, 40), 150, 300], seed=max_length)))
    questions = ["a " * (number % 11) for number in range(len(contexts))]
    actual, expected = graph_and_offline(
        questions,
        contexts,
        reader=reader(max_length),
        stride=stride,
        max_question_length=max_question_length,
        max_answer_length=max_answer_length,
    )
    # Both number the tokens of the contexts in order; in the graph, those of the questions precede.
    np.testing.assert_array_equal(actual, expected)


def test_the_first_of_equal_spans_is_chosen(reader):
    actual, expected = graph_and_offline(
        ["a", "b"],
        ["a a " * 40, "b " * 33],
        reader=reader(16),
        num_values=1,
        stride=3,
        max_question_length=4,
        max_answer_length=7,
    )
    np.testing.assert_array_equal(actual, expected)
    assert actual[:, 1].tolist() == actual[:, 2].tolist() == [0, 80]


def test_a_context_without_tokens_has_no_span(reader):
    @tf.function(autograph=False)
    def in_graph():
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

    best = in_graph()
    assert best.scores.numpy().tolist() == [-np.inf, 1.0]
    assert best.null_scores.numpy().tolist() == [1.0, 1.0]
    assert best.first_tokens[1] == best.last_tokens[1] == 3
