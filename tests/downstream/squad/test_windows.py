"""Windows of contexts, their targets, and the maximum context of each token."""

import numpy as np
import pytest

from bert_keras.kinds.windows import make_windows

LIMITS = {"max_length": 384, "stride": 128, "max_question_length": 64}


def trained_answers(questions, windows):
    """Returns the text at the targets of each window; None for [CLS]."""
    texts = []
    for index, question in enumerate(questions):
        for row in windows.of_question(index):
            start, end = (int(windows.targets[name][row]) for name in ("start", "end"))
            before = 2 + windows.lengths_N2[row, 0]
            first, last = (windows.starts_N2[row, 1] + i - before for i in (start, end))
            characters = slice(windows.offsets[first, 0], windows.offsets[last, 1])
            texts.append(question.context[characters] if start else None)
    return texts


@pytest.mark.parametrize(
    ("context", "answer", "trained"),
    [
        ("lyon won.", "won", "won"),
        ("a (lyon).", "lyon", "lyon"),  # without the adjacent punctuation
        ("a  \t lyon \n won .", "lyon \n won", "lyon \n won"),
        ("Lyon's", "Lyon", "Lyon"),
        ("a Japanese b", "Japan", "Japan"),  # a separate token
        ("a Japanese b", "apan", "Japan"),  # the tokens that overlap the answer
        ("a-b-a", "a", "a"),
        ("🎉🎉 lyon 🎉", "lyon", "lyon"),
        ("x 北京 y", "京", "京"),
        ("un Café à b", "Café", "Café"),
        ("e\u0301 lyon", "lyon", "lyon"),
        ("a \u200b lyon", "lyon", "lyon"),
        (" lyon ", " lyon ", "lyon"),
    ],
)
def test_targets_are_the_tokens_that_overlap_the_answer(ask, tokenizer, context, answer, trained):
    questions = [ask(context, answer)]
    assert trained_answers(questions, make_windows(questions, tokenizer, **LIMITS)) == [trained]


def test_a_long_context_has_several_windows(ask, tokenizer):
    long = ask("a b c d e f g h i j", "g h", question="who ? who ?", identity="long")
    questions = [long, ask("a b c", "b", identity="short")]
    windows = make_windows(questions, tokenizer, max_length=10, stride=3, max_question_length=2)
    inputs, targets = windows.batch(np.arange(len(windows)))
    tokens = [[tokenizer.vocabulary.tokens[i] for i in row] for row in inputs["input_ids"]]
    assert [row[:4] for row in tokens] == [["[CLS]", "who", "?", "[SEP]"]] * 4
    assert ["".join(row[4:9]) for row in tokens[:3]] == ["abcde", "defgh", "ghij[SEP]"]
    assert tokens[3][4:] == ["a", "b", "c", "[SEP]", "[PAD]", "[PAD]"]
    assert inputs["segment_ids"].tolist()[3] == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0]
    assert inputs["input_mask"].sum(axis=1).tolist() == windows.lengths.tolist() == [10, 10, 9, 8]
    assert targets["start"].tolist() == [0, 7, 4, 5]
    assert targets["end"].tolist() == [0, 8, 5, 5]
    assert targets["start"].dtype == np.int32
    assert list(windows.of_question(0)) == [0, 1, 2]
    assert list(windows.of_question(1)) == [3]


def test_targets_are_at_the_annotated_occurrence_or_at_cls(ask, tokenizer):
    questions = [ask("a-b-a c", "a", start=4), ask("a b", is_impossible=True)]
    questions += [ask("a b", "b", start=0)]
    windows = make_windows(questions, tokenizer, **LIMITS)
    for name in ("start", "end"):
        assert windows.targets[name].tolist() == [2 + 2 + 4, 0, 0]


def test_a_context_without_tokens_has_an_empty_window(ask, tokenizer):
    windows = make_windows([ask("\u200b"), ask("a")], tokenizer, **LIMITS)
    assert windows.lengths_N2[:, 1].tolist() == [0, 1]


def test_the_shared_file_has_as_many_windows_as_in_run_squad(shared_data):
    from bert_keras.downstream.squad.task import SQUAD_TASKS
    from bert_keras.text.tokenizer import WordPieceTokenizer
    from bert_keras.text.vocab import Vocabulary

    vocabulary = Vocabulary.from_file(shared_data / "vocab/bert-base-uncased-vocab.txt")
    task = SQUAD_TASKS["squad2"]
    path = task.files(shared_data / "squad")["train"]
    windows = task.encode(task.read(path), WordPieceTokenizer(vocabulary))
    assert len(windows) == 10_418
    assert int((windows.targets["start"] == 0).sum()) == 3_202
