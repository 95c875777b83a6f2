import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.squad.windows import max_context, windows_over

LIMITS = {"max_length": 384, "stride": 128, "max_question_length": 64}


def answers_trained(questions, windows):
    """What each window is trained to answer: characters of its context; None at [CLS]."""
    texts = []
    for number, question in enumerate(questions):
        for row in windows.of_question(number):
            start, end = (int(windows.targets[name][row]) for name in ("start", "end"))
            before = 2 + windows.lengths_N2[row, 0]
            first, last = (windows.starts_N2[row, 1] + at - before for at in (start, end))
            cut = slice(windows.offsets[first, 0], windows.offsets[last, 1])
            texts.append(question.context[cut] if start else None)
    return texts


@pytest.mark.parametrize(
    ("context", "answer", "trained"),
    [
        ("lyon won.", "won", "won"),
        ("a (lyon).", "lyon", "lyon"),  # without what clings to it
        ("a  \t lyon \n won .", "lyon \n won", "lyon \n won"),
        ("Lyon's", "Lyon", "Lyon"),
        ("a Japanese b", "Japan", "Japan"),  # a piece of its own
        ("a Japanese b", "apan", "Japan"),  # the pieces that it shares characters with
        ("a-b-a", "a", "a"),
        ("🎉🎉 lyon 🎉", "lyon", "lyon"),
        ("x 北京 y", "京", "京"),
        ("un Café à b", "Café", "Café"),
        ("e\u0301 lyon", "lyon", "lyon"),
        ("a \u200b lyon", "lyon", "lyon"),
        (" lyon ", " lyon ", "lyon"),
    ],
)
def test_the_pieces_of_an_answer(ask, tokenizer, context, answer, trained):
    questions = [ask(context, answer)]
    assert answers_trained(questions, windows_over(questions, tokenizer, **LIMITS)) == [trained]


def test_the_answer_where_it_was_marked_not_where_it_first_occurs(ask, tokenizer):
    questions = [ask("a-b-a c", "a", start=4)]
    windows = windows_over(questions, tokenizer, **LIMITS)
    assert windows.targets["start"].tolist() == [2 + 2 + 4]


def test_windows_of_a_long_context(ask, tokenizer):
    questions = [
        ask("a b c d e f g h i j", "g h", asked="who ? who ?", identity="long"),
        ask("a b c", "b", identity="short"),
    ]
    windows = windows_over(questions, tokenizer, max_length=10, stride=3, max_question_length=2)
    inputs, targets = windows.batch(np.arange(len(windows)))
    pieces = [[tokenizer.vocabulary.pieces[i] for i in row] for row in inputs["input_ids"]]
    assert [row[:4] for row in pieces] == [["[CLS]", "who", "?", "[SEP]"]] * 4
    assert ["".join(row[4:9]) for row in pieces[:3]] == ["abcde", "defgh", "ghij[SEP]"]
    assert pieces[3][4:] == ["a", "b", "c", "[SEP]", "[PAD]", "[PAD]"]
    assert inputs["segment_ids"].tolist()[3] == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0]
    assert inputs["input_mask"].sum(axis=1).tolist() == windows.lengths.tolist() == [10, 10, 9, 8]
    assert targets["start"].tolist() == [0, 7, 4, 5]
    assert targets["end"].tolist() == [0, 8, 5, 5]
    assert targets["start"].dtype == np.int32
    assert list(windows.of_question(0)) == [0, 1, 2]
    assert list(windows.of_question(1)) == [3]


def test_a_batch_is_as_long_as_its_longest(ask, tokenizer):
    questions = [ask("a b c d e", "b"), ask("a", "a")]
    windows = windows_over(questions, tokenizer, **LIMITS)
    assert windows.batch(np.array([1]))[0]["input_ids"].shape == (1, 6)


def test_questions_without_an_answer_are_trained_to_cls(ask, tokenizer):
    questions = [ask("a b", is_impossible=True), ask("a b", "b", start=0)]
    windows = windows_over(questions, tokenizer, **LIMITS)
    assert windows.targets["start"].tolist() == windows.targets["end"].tolist() == [0, 0]


def test_a_context_of_nothing_that_is_text(ask, tokenizer):
    with pytest.raises(InputError, match=r"f\.json: nothing of the context is a piece"):
        windows_over([ask("\u200b", place="f.json")], tokenizer, **LIMITS)


def test_each_piece_has_one_window_that_shows_most_around_it():
    starts, lengths = np.array([0, 3, 6]), np.array([5, 5, 4])
    shown = max_context(starts, lengths)
    assert [part.tolist() for part in shown] == [
        [True, True, True, True, False],  # 3 has one to its right here, none to its left there
        [False, True, True, True, False],
        [False, True, True, True],
    ]
    pieces = [
        piece
        for start, part in zip(starts, shown, strict=True)
        for piece in start + part.nonzero()[0]
    ]
    assert sorted(pieces) == list(range(10))


def test_of_windows_that_show_as_much_the_longer_then_the_first():
    first, second = max_context(np.array([0, 2]), np.array([3, 3]))
    assert (first[2], second[0]) == (True, False)
    first, second = max_context(np.array([0, 2]), np.array([3, 4]))
    assert (first[2], second[0]) == (False, True)


def test_the_shared_files_are_windowed_as_run_squad_does(shared_data):
    from bert_keras.tasks.squad.task import SQUAD_TASKS
    from bert_keras.text.tokenizer import WordPieceTokenizer
    from bert_keras.text.vocab import Vocabulary

    vocabulary = Vocabulary.from_file(shared_data / "vocab/bert-base-uncased-vocab.txt")
    task = SQUAD_TASKS["squad2"]
    path = task.files(shared_data / "squad")["train"]
    windows = task.encode(task.read(path), WordPieceTokenizer(vocabulary))
    assert len(windows) == 10_418
    assert int((windows.targets["start"] == 0).sum()) == 3_202
