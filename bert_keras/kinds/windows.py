"""Divides contexts into windows [CLS] question [SEP] passage [SEP], with the answers as targets.

The rules follow google-research/bert run_squad.py (BERT paper, section 4.2). A window without the
complete answer has its targets at [CLS]. Each token of a context is predicted in the window where
it has the most context. Shapes: Q questions, N windows, B windows of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.data.encoded import Encoded
from bert_keras.errors import quoted
from bert_keras.text.packing import pack_texts
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

MAX_SPECIALS = 4  # RoBERTa's: <s>, </s>, </s>, </s>; BERT has three
# Limits the memory of offsets as Python tuples, which take 100 bytes each.
_BATCH_SIZE = 1_000


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of an annotator."""

    text: str
    start: int  # index of its first character in the context


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a context."""

    id: str
    question: str
    context: str  # the passage that may contain the answer
    answers: tuple[Answer, ...] = ()  # the answers of all annotators
    is_impossible: bool = False  # whether the context contains no answer
    location: str = ""  # where it was read, for error messages

    @property
    def target(self) -> Answer | None:
        """The first answer whose text is in the context at its `start`, or None.

        The case may differ, because files made from TriviaQA have answers in lower case.
        """
        for answer in self.answers:
            text = self.context[answer.start :][: len(answer.text)]
            is_equal = answer.start >= 0 and text.lower() == answer.text.lower()
            if is_equal and answer.text.strip():
                return answer
        return None

    @property
    def misplaced(self) -> str:
        """An error message: where its first answer should be, and what the context has there."""
        if not self.answers:
            return f"{self.location} has no answer"
        text, start = self.answers[0].text, self.answers[0].start
        found = self.context[max(start, 0) :][: len(text)]
        where = f"at character {start}, where {quoted(found)} stands"
        return f"{self.location}: the answer {quoted(text)} is not {where}"


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionWindows(Encoded):
    """N windows of all questions; the windows of a question are adjacent and in order."""

    vocabulary: Vocabulary
    tokens: np.ndarray  # int32, the token ids of all contexts, then of all questions
    offsets: np.ndarray  # int32 [num_tokens, 2], the characters [start, end) in the context
    starts_N2: np.ndarray  # the index in `tokens` of the question and of the passage
    lengths_N2: np.ndarray  # the tokens of the question and of the passage
    first_windows: np.ndarray  # int [Q+1], the index of the first window of each question, and N
    # "start" and "end", int32 [N], positions of the answer in the window; 0, the position of [CLS],
    # for a window without the complete answer.
    targets: dict[str, np.ndarray]

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.lengths_N2.sum(axis=1) + self.vocabulary.num_specials(2)

    @property
    def examples(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.first_windows) - 1), np.diff(self.first_windows))

    def batch(self, rows: np.ndarray) -> tuple[dict, dict]:
        starts_B2, lengths_B2 = self.starts_N2[rows], self.lengths_N2[rows]
        options = {"length": self.num_columns(rows), "vocabulary": self.vocabulary}
        inputs = pack_texts(self.tokens, starts_B2, lengths_B2, **options)
        return inputs, {name: positions[rows] for name, positions in self.targets.items()}

    def of_question(self, question: int) -> range:
        """Returns the indices of the windows of a question."""
        return range(*self.first_windows[question : question + 2])


def make_windows(
    questions: Sequence[Question],
    tokenizer: TextTokenizer,
    *,
    max_length: int,
    stride: int,
    max_question_length: int,
) -> QuestionWindows:
    """Makes the windows of questions; a context of several questions is tokenized only once.

    Args:
        questions: The questions and their contexts.
        tokenizer: The tokenizer of the model.
        max_length: Maximum number of tokens of a window, special tokens included.
        stride: Tokens between the starts of two windows of a context.
        max_question_length: Maximum number of tokens of a question; it is cut at its end.
    """
    num_specials = tokenizer.vocabulary.num_specials(2)
    context_indices: dict[str, int] = {}  # of distinct contexts
    for question in questions:
        context_indices.setdefault(question.context, len(context_indices))
    context_Q = np.array([context_indices[question.context] for question in questions])
    ids, offsets, num_tokens = _tokenize(list(context_indices), tokenizer)
    question_ids, num_question_tokens = tokenizer.flat_ids([q.question for q in questions])

    context_starts_Q = (np.cumsum(num_tokens) - num_tokens)[context_Q]
    num_tokens_Q = num_tokens[context_Q]
    question_starts_Q = len(ids) + np.cumsum(num_question_tokens) - num_question_tokens
    question_lengths_Q = np.minimum(num_question_tokens, max_question_length)

    max_passage_Q = max_length - num_specials - question_lengths_Q
    step_Q = np.minimum(stride, max_passage_Q)
    num_windows_Q = 1 + np.maximum(0, -(-(num_tokens_Q - max_passage_Q) // step_Q))
    first_windows = np.append(0, np.cumsum(num_windows_Q))
    question_N = np.repeat(np.arange(len(questions)), num_windows_Q)
    index_N = np.arange(len(question_N)) - first_windows[question_N]
    start_N = index_N * step_Q[question_N]
    length_N = np.minimum(max_passage_Q[question_N], num_tokens_Q[question_N] - start_N)
    starts_N2 = np.stack([question_starts_Q[question_N], context_starts_Q[question_N] + start_N], 1)
    lengths_N2 = np.stack([question_lengths_Q[question_N], length_N], 1)

    answers_Q2 = np.full((len(questions), 2), -1)  # the first and the last token of each answer
    for index, question in enumerate(questions):
        if (answer := question.target) is not None:
            starts, ends = offsets[context_starts_Q[index] :][: num_tokens_Q[index]].T
            last = np.searchsorted(starts, answer.start + len(answer.text), side="left") - 1
            answers_Q2[index] = np.searchsorted(ends, answer.start, side="right"), last
    first_N, last_N = (answers_Q2[question_N] - start_N[:, None]).T
    is_inside_N = (first_N >= 0) & (first_N <= last_N) & (last_N < length_N)
    before_passage_N = num_specials - 1 + lengths_N2[:, 0]  # the last [SEP] is after the passage
    return QuestionWindows(
        vocabulary=tokenizer.vocabulary,
        tokens=np.concatenate([ids, question_ids]),
        offsets=offsets,
        starts_N2=starts_N2,
        lengths_N2=lengths_N2,
        first_windows=first_windows,
        targets={
            name: np.where(is_inside_N, token_N + before_passage_N, 0).astype(np.int32)
            for name, token_N in (("start", first_N), ("end", last_N))
        },
    )


def find_max_context(starts: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Returns for each window which of its tokens have the most context there, bool [length].

    The context of a token in a window is the number of tokens to its left or to its right in the
    window, whichever is smaller, plus 0.01 times the length of the window. The earliest window wins
    a tie (run_squad.py, `_check_is_max_context`). `starts` and `lengths`, in tokens, describe the
    windows of one context; `starts` ascend from 0.
    """
    tokens = np.arange(starts[-1] + lengths[-1])
    left = tokens - starts[:, None]
    right = lengths[:, None] - 1 - left
    context = np.minimum(left, right)
    scores = np.where(context < 0, -np.inf, context + 0.01 * lengths[:, None])
    best = scores.argmax(axis=0)
    return [
        best[start : start + length] == window
        for window, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]


def _tokenize(
    contexts: list[str], tokenizer: TextTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids and their characters [num_tokens, 2], int32, and the tokens of each context."""
    ids, offsets, lengths = [np.empty(0, np.int32)], [np.empty((0, 2), np.int32)], []
    for start in range(0, len(contexts), _BATCH_SIZE):
        for text in tokenizer.encode_batch(contexts[start : start + _BATCH_SIZE]):
            ids.append(np.array(text.ids, np.int32))
            offsets.append(np.array(text.offsets, np.int32).reshape(-1, 2))
            lengths.append(len(text.ids))
    return np.concatenate(ids), np.concatenate(offsets), np.array(lengths, np.int64)
