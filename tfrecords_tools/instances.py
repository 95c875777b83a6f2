"""Plans the splits and shards of records, and draws instances: spans of documents, and a label.

Texts are paired as in google-research/bert `create_pretraining_data.py`, with corrections: the
short length is drawn for each pair, both labels are equally frequent in each range of documents,
the random text always comes from another document, and a single sentence may precede its next one.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import numpy as np

from bert_keras.errors import InputError, counted
from tfrecords_tools.settings import BuildSettings, split_summary
from tfrecords_tools.store import Range, TokenSource, TokenStore, documents_of, write_buckets

TRAIN, HELD_OUT = "train", "held-out"
RECORDS_PER_BUCKET = 100_000
MIN_RECORDS_PER_SHARD = 250  # if the settings do not fix the number of shards
_MOST_REPEATED = 4  # pairs, to balance the labels of a pass; few sentences may need more
_SHORTEST_PART = 8  # the fewest tokens that a divided sentence leaves in an instance
# The index of a document, and its bounds: the index in the store of the first token of each
# sentence, and after these the end of the last sentence.
Document = tuple[int, list[int]]
TextSpan = tuple[int, int]  # the first token and the end of a text in the store


class Instance(NamedTuple):
    """The texts of a sequence."""

    spans: tuple[TextSpan, ...]
    label: int = 0  # stays 0 if the objective has no labels


class PairChoices(NamedTuple):
    """The random choices of an objective: the length of a pair and a text of another document."""

    random: Random
    max_length: int
    short_rate: float  # fraction of the pairs that are kept short
    # Returns a text of another document for the index of a document and a number of tokens.
    other_text: Callable[[int, int], TextSpan]
    fills_records: bool  # whether a sentence that does not fit continues in the next instance
    num_separators: int = 1  # between two texts

    def draw_length(self) -> int:
        """Draws the number of tokens of a pair, without special tokens."""
        full = self.max_length - 2 - self.num_separators
        return self.random.randint(2, full) if self.random.random() < self.short_rate else full


def next_sentence(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields pairs of texts A and B (BERT, appendix A.2).

    B follows A (label 0), or is a random text of another document (label 1).
    """
    random = pair_choices.random
    balance = 0  # random next texts minus true next texts
    latest = {True: deque(maxlen=_MOST_REPEATED), False: deque(maxlen=_MOST_REPEATED)}
    for document, bounds in documents:
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
                text_b = pair_choices.other_text(document, length - (text_a[1] - text_a[0]))
                last = end_a  # the next pair begins with the unused sentences
            else:
                text_b = bounds[end_a], bounds[last]
            pair = Instance((text_a, text_b), int(is_random))
            latest[is_random].append(pair)
            yield pair
            first = last
    if abs(balance) <= _MOST_REPEATED:
        # Repeats pairs of the label that is too rare, so that both labels are equally frequent.
        yield from list(latest[balance < 0])[: abs(balance)]


def sentence_order(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields pairs of adjacent texts, half of them swapped (label 1; ALBERT, section 3.1)."""
    balance = 0  # swapped pairs minus pairs in order
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
    if balance:  # repeats the last pair in the other order, so that the labels are equally frequent
        yield Instance(texts if is_swapped else texts[::-1], int(not is_swapped))


def full_sentences(documents: Iterable[Document], pair_choices: PairChoices) -> Iterator[Instance]:
    """Yields as many sentences as fit, from one or several documents (RoBERTa, section 4.2).

    An instance has a span for each document.
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


# Objective, a key of `settings.LABEL_NAMES` -> function that turns documents into instances
INSTANCES: dict[str, Callable[[Iterable[Document], PairChoices], Iterator[Instance]]] = {
    "nsp": next_sentence,
    "sop": sentence_order,
    "full-sentences": full_sentences,
    "doc-sentences": doc_sentences,
}


def _end_of_text(bounds: list[int], first: int, length: int) -> int:
    """Returns the index after the sentences from `first` on that together reach `length` tokens.

    If the rest of the document is shorter, this is the index after its last sentence.
    """
    return min(bisect_left(bounds, bounds[first] + length, lo=first + 1), len(bounds) - 1)


@dataclass(frozen=True)
class Split:
    """The documents of a split, with indices from 0 to `num_documents - 1`."""

    name: str  # TRAIN or HELD_OUT
    num_documents: int
    held_out: array  # the indices in the store of the held-out documents, ascending

    def index_of(self, document: int) -> int | None:
        """Converts the index of a document in the store to its index in the split, or to None."""
        num_before = bisect_left(self.held_out, document)
        is_held_out = num_before < len(self.held_out) and self.held_out[num_before] == document
        if is_held_out != (self.name == HELD_OUT):
            return None
        return num_before if is_held_out else document - num_before

    def document(self, index: int) -> int:
        """Converts the index of a document in the split to its index in the store."""
        if self.name == HELD_OUT:
            return self.held_out[index]
        # held_out[k] - k training documents precede held-out document k.
        ranks = range(len(self.held_out))
        num_held_out = bisect_right(ranks, index, key=lambda k: self.held_out[k] - k)
        return index + num_held_out


def plan_splits(num_documents: int, *, settings: BuildSettings) -> list[Split]:
    """Returns the split `train` and, if its rate is positive, `held-out`, drawn with the seed."""
    rate = settings.held_out_rate
    count = max(2, round(rate * num_documents)) if rate else 0
    if (rate or settings.objective == "nsp") and num_documents - count < 2:
        raise InputError(
            f"the corpus has {counted(num_documents, 'document')}; expected at least two in each "
            "split: put blank lines between documents or add files"
        )
    if not rate:
        return [Split(TRAIN, num_documents, array("q"))]
    generator = np.random.default_rng(settings.seed)
    chosen = np.sort(generator.choice(num_documents, count, replace=False, shuffle=False))
    held_out = array("q", chosen.astype("<i8").tobytes())
    return [Split(TRAIN, num_documents - count, held_out), Split(HELD_OUT, count, held_out)]


@dataclass(frozen=True)
class Layout:
    """The buckets and shards of a split."""

    split: Split
    num_sentences: int
    num_tokens: int
    settings: BuildSettings
    num_separators: int  # between two texts
    num_passes: int  # over the documents; held-out documents are read once
    num_buckets: int
    shards: tuple[range, ...]  # the buckets of each shard

    def generator(self, *place: int) -> np.random.Generator:
        """Returns a random generator for the `place` (0, unit, part) of a range or (1, shard)."""
        return np.random.default_rng((self.settings.seed, int(self.split.name != TRAIN), *place))

    def summary(self, shards: Sequence[dict]) -> dict:
        """Returns the manifest's entry of the split; `shards` are the counts of each shard."""
        summed = ["records", "sequences", "tokens"]
        summed += ["labels_one"] * self.settings.schema.has_labels
        sizes = {"sentences": self.num_sentences, "pieces": self.num_tokens}
        return split_summary(shards, summed=summed, documents=self.split.num_documents, **sizes)


def check_shards(has_records: Iterable[bool], *, split: str, num_shards: int) -> None:
    """Raises InputError unless all shards of a split have records."""
    if not all(has_records):
        raise InputError(
            f"the corpus gives too few records ({split}) for {counted(num_shards, 'shard')}; add "
            "text or request fewer shards"
        )


def shard_file(split: str, shard: int, num_shards: int) -> str:
    """Returns the name of a record file."""
    return f"{split}-{shard:05d}-of-{num_shards:05d}.tfrecord"


def plan_layouts(
    sizes: np.ndarray, *, settings: BuildSettings, num_separators: int
) -> tuple[Layout, ...]:
    """Plans the splits of documents; `TokenStore.document_sizes` returns the `sizes`."""
    splits = plan_splits(sizes.shape[1], settings=settings)
    held_out = sizes[:, np.array(splits[0].held_out, np.int64)].sum(axis=1)
    layouts = []
    for split, size in zip(splits, [sizes.sum(axis=1) - held_out, held_out], strict=False):
        num_passes = cast(int, settings.duplicates) if split.name == TRAIN else 1
        num_sentences, num_tokens = size.tolist()
        # An instance has at most as many tokens as a record, so these are the fewest instances.
        expected = num_passes * num_tokens // settings.max_length + 1
        num_shards = settings.shards if split.name == TRAIN else 1
        if num_shards is None:
            minimum = min(4, max(1, expected // MIN_RECORDS_PER_SHARD))
            num_buckets = num_shards = max(minimum, -(-expected // RECORDS_PER_BUCKET))
        else:
            num_buckets = num_shards * max(1, -(-expected // (num_shards * RECORDS_PER_BUCKET)))
        step = num_buckets // num_shards
        shards = tuple(range(start, start + step) for start in range(0, num_buckets, step))
        sizes_of_split = {"num_sentences": num_sentences, "num_tokens": num_tokens}
        counts = {"num_passes": num_passes, "num_buckets": num_buckets, "shards": shards}
        options = {"settings": settings, "num_separators": num_separators}
        layouts.append(Layout(split, **sizes_of_split, **options, **counts))
    return tuple(layouts)


@dataclass(frozen=True)
class FindInstances:
    """A job that draws the instances of a range's documents in a split, and writes buckets."""

    documents: Range
    layout: Layout  # of the split
    output: Path
    store_folder: Path

    @property
    def size(self) -> int:
        return self.documents.end - self.documents.start

    def __call__(self) -> dict[str, Any]:
        store = TokenStore(self.store_folder)
        generator = self.layout.generator(0, self.documents.unit, self.documents.part)
        random = Random(int(generator.integers(2**62)))
        instances = draw_instances(
            self.layout, self.documents, store, random=random, text_at=store.text_at
        )
        flat: list[int] = []
        for index, (spans, label) in enumerate(instances):
            for span in spans:
                flat += (index, label, *span)
        table = np.array(flat, np.int64).reshape(-1, 4)
        num_buckets, num_instances = self.layout.num_buckets, table[-1, 0] + 1 if len(table) else 0
        # The bucket of each instance, and from these the bucket of each span.
        buckets = generator.integers(num_buckets, size=num_instances)[table[:, 0]]
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(1, num_buckets))
        return {"sizes": write_buckets(self.output, np.split(table[order], ends))}


def draw_instances(
    layout: Layout,
    documents: Range,
    store: TokenSource,
    *,
    random: Random,
    text_at: Callable[[int, float, int], Any],
) -> Iterator[Instance]:
    """Draws the instances of a range in all passes.

    Args:
        layout: The split, whose documents are used, and the number of passes.
        documents: The range, with indices of the whole corpus.
        store: The tokens of the range.
        random: The source of all random numbers.
        text_at: Returns a text of another document, as `TokenSource.text_at`.
    """
    split, settings = layout.split, layout.settings
    split_documents = [
        (index, bounds)
        for document, bounds in documents_of(store, documents)
        if (index := split.index_of(document)) is not None
    ]

    def other_text(index: int, num_tokens: int) -> Any:
        other = int(random.random() * (split.num_documents - 1))
        if other >= index:  # skips the document itself
            other += 1
        return text_at(split.document(other), random.random(), num_tokens)

    pair_choices = PairChoices(
        random=random,
        max_length=settings.max_length,
        short_rate=settings.short_sequence_rate,
        other_text=other_text,
        fills_records=settings.schema.is_packed,
        num_separators=layout.num_separators,
    )
    for _ in range(layout.num_passes):
        yield from INSTANCES[settings.objective](split_documents, pair_choices)
