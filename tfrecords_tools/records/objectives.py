"""Defines the pretraining objectives, which turn documents into instances of spans and a label.

Every instance fits into a record, except for pairs, which `shards.cut` shortens when they are
written. Texts are paired as in google-research/bert `create_pretraining_data.py`, with corrections:

- The short length is drawn for each pair, not once for a document.
- Both labels are equally frequent in each range of documents.
- The random text always comes from another document.
- A single sentence may be followed by its true next sentence, which never happens in the original.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

# The most pairs that are repeated to balance the labels of a pass. A larger imbalance remains; it
# only occurs with too few sentences.
_MOST_REPEATED = 4
_SHORTEST_PART = 8  # tokens of a part of a sentence that is cut
# Number and bounds, indices of tokens: the start of each sentence, and the end of the last one.
Document = tuple[int, list[int]]
TextSpan = tuple[int, int]


class Instance(NamedTuple):
    """Spans as (start, end) in the store, and a label, which some objectives leave at 0."""

    spans: tuple[TextSpan, ...]
    label: int = 0


class PairChoices(NamedTuple):
    """The random choices of an objective: the length of a pair and a text of another document."""

    random: Random
    max_length: int
    short_rate: float  # fraction of the pairs that are kept short
    other_text: Callable[[int, int], TextSpan]  # (document, num_tokens) -> sentences of another
    fills_records: bool  # a record may hold several sequences to be full
    num_separators: int = 1  # between two texts

    def draw_length(self) -> int:
        """Draws the number of tokens of a pair, without special tokens."""
        most = self.max_length - 2 - self.num_separators
        return self.random.randint(2, most) if self.random.random() < self.short_rate else most


def next_sentence(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields pairs; B is the next text (label 0) or of another document (BERT, appendix A.2)."""
    random = pair_choices.random
    balance = 0  # number of random next texts minus number of true ones
    latest = {True: deque(maxlen=_MOST_REPEATED), False: deque(maxlen=_MOST_REPEATED)}
    for number, bounds in documents:
        first, num_sentences = 0, len(bounds) - 1
        while first < num_sentences:
            length = pair_choices.draw_length()
            last = _end_of_text(bounds, first, length)
            is_random = random.random() < 0.5 if balance == 0 else balance < 0
            if last - first == 1 and not is_random:
                last = min(last + 1, num_sentences)  # adds the true next sentence
            if last - first == 1:
                is_random = True
            balance += 1 if is_random else -1
            end_a = first + 1 + int(random.random() * (last - first - 1))
            text_a = bounds[first], bounds[end_a]
            if is_random:
                text_b = pair_choices.other_text(number, length - (text_a[1] - text_a[0]))
                last = end_a  # the next pair begins with the unused sentences
            else:
                text_b = bounds[end_a], bounds[last]
            pair = Instance((text_a, text_b), int(is_random))
            latest[is_random].append(pair)
            yield pair
            first = last
    if abs(balance) <= _MOST_REPEATED:
        yield from list(latest[balance < 0])[: abs(balance)]  # balances the labels


def sentence_order(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields pairs of adjacent texts, half of them swapped (label 1; ALBERT, section 3.1).

    A document of a single sentence yields no pair.
    """
    balance = 0  # number of swapped pairs minus number of the others
    for _, bounds in documents:
        first, num_sentences = 0, len(bounds) - 1
        while first < num_sentences - 1:
            last = max(_end_of_text(bounds, first, pair_choices.draw_length()), first + 2)
            if last == num_sentences - 1:
                last = num_sentences  # a single sentence cannot form the next pair
            middle = first + 1 + int(pair_choices.random.random() * (last - first - 1))
            is_swapped = pair_choices.random.random() < 0.5 if balance == 0 else balance < 0
            balance += 1 if is_swapped else -1
            texts = (bounds[first], bounds[middle]), (bounds[middle], bounds[last])
            yield Instance(texts[::-1] if is_swapped else texts, int(is_swapped))
            first = last
    if balance:
        yield Instance(texts if is_swapped else texts[::-1], int(not is_swapped))  # for balance


def full_sentences(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields as many sentences as fit, across documents, a span for each (RoBERTa, section 4.2).

    If `fills_records`, a sentence that does not fit is cut and continues in the next instance.
    """
    max_tokens = space = pair_choices.max_length - 2
    spans: list[TextSpan] = []
    for _, bounds in documents:
        start, end = bounds[0], bounds[-1]
        while start < end:
            stop = min(start + max(space, 0), end)
            if not pair_choices.fills_records or space < _SHORTEST_PART:
                stop = bounds[bisect_right(bounds, stop) - 1]
            if stop > start:
                spans.append((start, stop))
                space -= stop - start + pair_choices.num_separators  # separate the next document
                start = stop
            if start < end:  # the next sentence does not fit
                yield Instance(tuple(spans))
                spans, space = [], max_tokens
    if spans:
        yield Instance(tuple(spans))


def doc_sentences(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Same as `full_sentences`, but an instance never continues into the next document."""
    for document in documents:
        yield from full_sentences([document], pair_choices)


class RecordObjective(NamedTuple):
    """A function that turns documents into instances, and the meanings of labels 0 and 1."""

    instances: Callable[[Iterable[Document], PairChoices], Iterator[Instance]]
    labels: tuple[str, ...] = ()  # empty if there is no label


NEXT_SENTENCE = ("true next", "random next")
RECORD_OBJECTIVES = {
    "nsp": RecordObjective(next_sentence, NEXT_SENTENCE),
    "sop": RecordObjective(sentence_order, ("true order", "changed order")),
    "full-sentences": RecordObjective(full_sentences),
    "doc-sentences": RecordObjective(doc_sentences),
}


def _end_of_text(bounds: list[int], first: int, length: int) -> int:
    """Returns the index after the sentences from `first` on that reach `length` tokens."""
    # If the document is shorter, it is the index after its last sentence.
    return min(bisect_left(bounds, bounds[first] + length, lo=first + 1), len(bounds) - 1)
