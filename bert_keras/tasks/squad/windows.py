"""Questions about contexts in; windows [CLS] question [SEP] passage [SEP] over each context out.

The rules are those of google-research/bert run_squad.py (section 4.2): a document stride, targets
at [CLS] where a window does not hold the answer, and for each piece the window that shows most of
what is around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bert_keras.errors import InputError
from bert_keras.tasks.squad.questions import Question
from bert_keras.tasks.task import Encoded
from bert_keras.text.packing import packed_texts
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

NUM_SPECIALS = 3  # BERT's: [CLS], [SEP], [SEP]
_CONTEXTS_AT_ONCE = 1_000  # while their offsets are Python's tuples, 100 bytes each


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows(Encoded):
    """N windows of all questions, those of a question together and in order.

    `pieces` are the ids of all contexts, then of all questions; `offsets`, int32 [P,2], the
    characters [start, end) of the contexts' in their context. In `starts_N2` and `lengths_N2` are
    the question and the passage of each window. `first_windows`, int [Q+1], begins each question.
    """

    vocabulary: Vocabulary
    pieces: np.ndarray
    offsets: np.ndarray
    starts_N2: np.ndarray
    lengths_N2: np.ndarray
    first_windows: np.ndarray
    targets: dict[str, np.ndarray]

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.lengths_N2.sum(axis=1) + self.vocabulary.num_specials(2)

    def batch(self, rows: np.ndarray) -> tuple[dict, dict]:
        starts_B2, lengths_B2 = self.starts_N2[rows], self.lengths_N2[rows]
        inputs = packed_texts(
            self.pieces,
            starts_B2,
            lengths_B2,
            length=int(lengths_B2.sum(axis=1).max()) + self.vocabulary.num_specials(2),
            vocabulary=self.vocabulary,
        )
        return inputs, {name: positions[rows] for name, positions in self.targets.items()}

    def of_question(self, number: int) -> range:
        return range(*self.first_windows[number : number + 2])


def windows_over(
    questions: Sequence[Question],
    tokenizer: TextTokenizer,
    *,
    max_length: int,
    stride: int,
    max_question_length: int,
) -> Windows:
    """Each context is tokenized once, however many questions it has."""
    num_specials = tokenizer.vocabulary.num_specials(2)
    numbers: dict[str, int] = {}
    context_Q = np.array([numbers.setdefault(q.context, len(numbers)) for q in questions])
    ids, offsets, num_pieces = _tokenized(list(numbers), tokenizer)
    question_ids, num_question_pieces = tokenizer.flat_ids([q.question for q in questions])
    for question in np.flatnonzero(num_pieces[context_Q] == 0)[:1]:
        raise InputError(f"{questions[question].place}: nothing of the context is a piece of text")

    context_begins_Q = (np.cumsum(num_pieces) - num_pieces)[context_Q]
    num_pieces_Q = num_pieces[context_Q]
    question_begins_Q = len(ids) + np.cumsum(num_question_pieces) - num_question_pieces
    question_lengths_Q = np.minimum(num_question_pieces, max_question_length)

    room_Q = max_length - num_specials - question_lengths_Q
    for question in np.flatnonzero(room_Q < 1)[:1]:
        raise InputError(
            f"{questions[question].place}: max_length={max_length} leaves no room for a passage "
            f"beside the question and {num_specials} special pieces; raise it"
        )
    step_Q = np.minimum(stride, room_Q)
    num_windows_Q = 1 + np.maximum(0, -(-(num_pieces_Q - room_Q) // step_Q))
    first_windows = np.append(0, np.cumsum(num_windows_Q))
    question_N = np.repeat(np.arange(len(questions)), num_windows_Q)
    index_N = np.arange(len(question_N)) - first_windows[question_N]
    start_N = index_N * step_Q[question_N]
    length_N = np.minimum(room_Q[question_N], num_pieces_Q[question_N] - start_N)
    starts_N2 = np.stack([question_begins_Q[question_N], context_begins_Q[question_N] + start_N], 1)
    lengths_N2 = np.stack([question_lengths_Q[question_N], length_N], 1)

    answers_Q2 = np.array(
        [
            _answer_tokens(question, offsets[begin : begin + length])
            for question, begin, length in zip(
                questions, context_begins_Q, num_pieces_Q, strict=True
            )
        ]
    )
    first_N, last_N = (answers_Q2[question_N] - start_N[:, None]).T
    is_inside_N = (first_N >= 0) & (first_N <= last_N) & (last_N < length_N)
    before_passage_N = num_specials - 1 + lengths_N2[:, 0]  # all but the last [SEP]
    return Windows(
        vocabulary=tokenizer.vocabulary,
        pieces=np.concatenate([ids, question_ids]),
        offsets=offsets,
        starts_N2=starts_N2,
        lengths_N2=lengths_N2,
        first_windows=first_windows,
        targets={
            name: np.where(is_inside_N, place_N + before_passage_N, 0).astype(np.int32)
            for name, place_N in (("start", first_N), ("end", last_N))
        },
    )


def max_context(starts: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """For each window over one context, bool [length]: the pieces that no other window, nor an
    earlier one as well, shows with more on the side where it shows less.

    A hundredth of its length is in a window's favour (run_squad.py).
    """
    pieces = np.arange(starts[-1] + lengths[-1])
    left = pieces - starts[:, None]
    right = lengths[:, None] - 1 - left
    least = np.minimum(left, right)
    shown = np.where(least < 0, -np.inf, least + 0.01 * lengths[:, None])
    best = shown.argmax(axis=0)
    return [
        best[start : start + length] == window
        for window, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]


def _tokenized(
    contexts: list[str], tokenizer: TextTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat ids, int32 [P]; their characters, int32 [P,2]; how many each context has."""
    ids, offsets, lengths = [np.empty(0, np.int32)], [np.empty((0, 2), np.int32)], []
    for at in range(0, len(contexts), _CONTEXTS_AT_ONCE):
        for text in tokenizer.encode_batch(contexts[at : at + _CONTEXTS_AT_ONCE]):
            ids.append(np.array(text.ids, np.int32))
            offsets.append(np.array(text.offsets, np.int32).reshape(-1, 2))
            lengths.append(len(text.ids))
    return np.concatenate(ids), np.concatenate(offsets), np.array(lengths, np.int64)


def _answer_tokens(question: Question, offsets: np.ndarray) -> tuple[int, int]:
    """The first and last token of the context that share characters with the answer; -1 without
    one. `offsets`, int32 [P,2], are those of the context's tokens."""
    target = question.target
    if target is None:
        return -1, -1
    end = target.start + len(target.text)
    first = np.searchsorted(offsets[:, 1], target.start, side="right")
    last = np.searchsorted(offsets[:, 0], end, side="left") - 1
    return int(first), int(last)
