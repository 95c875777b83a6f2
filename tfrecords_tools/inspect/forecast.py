"""A token store comes in; what an objective makes of it goes out: records, labels, padding, cuts.

Nothing is written: the instances are drawn as `build` draws them, and counted.
"""

from array import array
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from tfrecords_tools.google.draws import Draws as GoogleDraws
from tfrecords_tools.google.draws import pairs_of
from tfrecords_tools.records.examples import other_text
from tfrecords_tools.records.instances import filled_rows
from tfrecords_tools.records.objectives import OBJECTIVES, Draws, Instance
from tfrecords_tools.records.splits import documents_of, ranges_of, splits_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore


class Forecast(NamedTuple):
    """Of one pass over the documents."""

    sequences: int
    records: int  # as many, unless several sequences share one
    labels_one: int  # "random next", or "swapped"
    padding: float  # share of the positions
    cut: float | None  # share of the sequences whose texts are longer than fits
    lost: float | None  # share of the pieces that are cut off there


def forecast(
    store: TokenStore, settings: BuildSettings, *, objective: str, num_separators: int = 1
) -> Forecast:
    """Of the records that this objective gives; the store must hold two documents."""
    (split,) = splits_of(store.num_documents, held_out_rate=0, seed=settings.seed)
    random = Random(settings.seed)
    draws = Draws(
        random,
        settings.max_length,
        settings.short_sequence_rate,
        lambda number, room: other_text(store, split, number, room, random),
        settings.schema.is_packed,
        num_separators,
    )
    documents = (
        each
        for part in ranges_of(store, [store.num_documents])
        for each in documents_of(store, part)
    )
    instances = OBJECTIVES[objective].instances(documents, draws)
    most = settings.sequences_per_record
    return _counted(
        instances, max_length=settings.max_length, most=most, num_separators=num_separators
    )


def original_forecast(store: TokenStore, settings: BuildSettings) -> Forecast:
    """Of the records that create_pretraining_data.py makes; what it cuts is not known."""
    instances = _original_instances(store, settings)
    return _counted(instances, max_length=settings.max_length, most=1)._replace(cut=None, lost=None)


def _original_instances(store: TokenStore, settings: BuildSettings) -> Iterator[Instance]:
    draws = GoogleDraws(settings.seed)
    order = draws.shuffled(store.num_documents)
    for place in range(len(order)):
        for start_a, length_a, start_b, length_b, is_random in pairs_of(
            store,
            order,
            place,
            limit=settings.max_length - 3,
            short_sequence_rate=settings.short_sequence_rate,
            draws=draws,
            advance=lambda _: None,
        ):
            spans = (start_a, start_a + length_a), (start_b, start_b + length_b)
            yield Instance(spans, int(is_random))


def _counted(
    instances: Iterable[Instance], *, max_length: int, most: int, num_separators: int = 1
) -> Forecast:
    """What records of up to `most` sequences come to."""
    lengths, labels_one = array("i"), 0
    for spans, label in instances:
        specials = 2 + num_separators * (len(spans) - 1)
        lengths.append(specials + sum(end - start for start, end in spans))
        labels_one += label
    wanted = np.array(lengths)
    kept = np.minimum(wanted, max_length)
    num_records = len(kept)
    if most > 1 and num_records:
        generator = np.random.default_rng(0)
        _, rows, _ = filled_rows(kept, length=max_length, most=most, generator=generator)
        num_records = int(rows[-1]) + 1
    return Forecast(
        sequences=len(kept),
        records=num_records,
        labels_one=labels_one,
        padding=1 - int(kept.sum()) / max(num_records * max_length, 1),
        cut=float((wanted > max_length).sum()) / max(len(kept), 1),
        lost=float((wanted - kept).sum()) / max(int(wanted.sum()), 1),
    )
