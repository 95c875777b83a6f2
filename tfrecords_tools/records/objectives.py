"""The pretraining objectives: documents become instances, each a few spans and a label.

A document is (its number, where its sentences begin and the last one ends: places in the store).
An objective walks once over documents. Every instance fits a record, except that the two spans of
a pair are cut when it is written (`instances.cut`).

- `next_sentence`: BERT, appendix A.2. B follows A (label 0) or is of another document (label 1).
- `sentence_order`: ALBERT, section 3.1. B follows A (label 0), or A and B change places (label 1).
- `full_sentences`, `doc_sentences`: RoBERTa, section 4.2. As many sentences as fit, no label; the
  first goes on into the next document, whose text is a span of its own, the second never does.

The pairing is that of google-research/bert `create_pretraining_data.py`, with these corrections:
the short length is drawn for each pair and not once for a document; the labels are balanced to the
pair; the random text is always of another document; a single sentence may be followed by its true
next one (in the original it never is).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

_MOST_REPEATED = 4  # pairs of a walk; one that is less balanced has too few sentences for it
_SHORTEST_PART = 8  # pieces of a sentence that is cut
Document = tuple[int, list[int]]
Span = tuple[int, int]


class Instance(NamedTuple):
    """Spans, start and end in the store; the label means something where the objective has one."""

    spans: tuple[Span, ...]
    label: int = 0


class Draws(NamedTuple):
    """What an objective may draw: the length of a pair, and a text of another document."""

    random: Random
    max_length: int
    short_rate: float  # share of the pairs that are kept short on purpose
    other_text: Callable[[int, int], Span]  # (document, room): whole sentences until they fill it
    fills_records: bool  # records are to be full, with several sequences if need be
    num_separators: int = 1  # between two texts

    def target(self) -> int:
        """How many pieces a pair is to have."""
        room = self.max_length - 2 - self.num_separators
        return self.random.randint(2, room) if self.random.random() < self.short_rate else room


def next_sentence(documents: Iterable[Document], draws: Draws) -> Iterator[Instance]:
    """Two texts, the second true or random, half of each."""
    random = draws.random
    balance = 0  # random next texts so far, less the true ones
    latest = {True: deque(maxlen=_MOST_REPEATED), False: deque(maxlen=_MOST_REPEATED)}
    for number, bounds in documents:
        first, num_sentences = 0, len(bounds) - 1
        while first < num_sentences:
            target = draws.target()
            last = _filled(bounds, first, target)
            is_random = random.random() < 0.5 if balance == 0 else balance < 0
            if last - first == 1 and not is_random:
                last = min(last + 1, num_sentences)  # the true next sentence comes along
            if last - first == 1:
                is_random = True
            balance += 1 if is_random else -1
            end_a = first + 1 + int(random.random() * (last - first - 1))
            text_a = bounds[first], bounds[end_a]
            if is_random:
                text_b = draws.other_text(number, target - (text_a[1] - text_a[0]))
                last = end_a  # sentences that were not used are put back
            else:
                text_b = bounds[end_a], bounds[last]
            pair = Instance((text_a, text_b), int(is_random))
            latest[is_random].append(pair)
            yield pair
            first = last
    if abs(balance) <= _MOST_REPEATED:
        yield from list(latest[balance < 0])[: abs(balance)]  # once more, for the balance


def sentence_order(documents: Iterable[Document], draws: Draws) -> Iterator[Instance]:
    """A document of a single sentence gives nothing."""
    balance = 0  # changed places so far, less the others
    for _, bounds in documents:
        first, num_sentences = 0, len(bounds) - 1
        while first < num_sentences - 1:
            last = max(_filled(bounds, first, draws.target()), first + 2)
            if last == num_sentences - 1:
                last = num_sentences  # a sentence that would be left alone comes along
            middle = first + 1 + int(draws.random.random() * (last - first - 1))
            changed = draws.random.random() < 0.5 if balance == 0 else balance < 0
            balance += 1 if changed else -1
            texts = (bounds[first], bounds[middle]), (bounds[middle], bounds[last])
            yield Instance(texts[::-1] if changed else texts, int(changed))
            first = last
    if balance:
        yield Instance(texts if changed else texts[::-1], int(not changed))  # for the balance


def full_sentences(documents: Iterable[Document], draws: Draws) -> Iterator[Instance]:
    """Where records are filled, a sentence that does not fit is cut and goes on in the next."""
    room = left = draws.max_length - 2
    spans: list[Span] = []
    for _, bounds in documents:
        start, end = bounds[0], bounds[-1]
        while start < end:
            stop = min(start + max(left, 0), end)
            if not draws.fills_records or left < _SHORTEST_PART:
                stop = bounds[bisect_right(bounds, stop) - 1]
            if stop > start:
                spans.append((start, stop))
                left -= stop - start + draws.num_separators  # before the next document
                start = stop
            if start < end:  # the next sentence does not fit
                yield Instance(tuple(spans))
                spans, left = [], room
    if spans:
        yield Instance(tuple(spans))


def doc_sentences(documents: Iterable[Document], draws: Draws) -> Iterator[Instance]:
    """As `full_sentences`, never over the end of a document."""
    for document in documents:
        yield from full_sentences([document], draws)


class Objective(NamedTuple):
    """What records are made of: how documents become instances, and what their label says."""

    instances: Callable[[Iterable[Document], Draws], Iterator[Instance]]
    label: str = ""  # what 1 stands for; empty where there is none

    @property
    def has_labels(self) -> bool:
        return bool(self.label)


OBJECTIVES = {
    "nsp": Objective(next_sentence, "random next"),
    "sop": Objective(sentence_order, "changed order"),
    "full-sentences": Objective(full_sentences),
    "doc-sentences": Objective(doc_sentences),
}


def _filled(bounds: list[int], first: int, target: int) -> int:
    """The end of the sentences from `first` on that reach `target` pieces, or of the document."""
    return min(bisect_left(bounds, bounds[first] + target, lo=first + 1), len(bounds) - 1)
