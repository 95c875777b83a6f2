"""Estimates the records of an objective from a token store: their number, labels and padding.

The instances are drawn as in `build` and counted; nothing is written.
"""

from array import array
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np

from tfrecords_tools.google.draws import Draws, pairs_of
from tfrecords_tools.records.examples import instances_of, text_of
from tfrecords_tools.records.instances import filled_rows
from tfrecords_tools.records.layout import layout_of
from tfrecords_tools.records.objectives import Instance
from tfrecords_tools.records.splits import Range, splits_of
from tfrecords_tools.settings import NUM_SPECIALS, BuildSettings
from tfrecords_tools.text.store import TokenStore


class Forecast(NamedTuple):
    """Counts of the records of one pass over the documents."""

    sequences: int
    records: int  # equal to `sequences`, unless several share a record
    labels_one: int  # sequences with label 1: "random next" or "swapped"
    padding: float  # share of the positions
    cut: float | None  # share of the sequences that are too long for a record
    lost: float | None  # share of the tokens that are cut off from these


def forecast(
    store: TokenStore, settings: BuildSettings, *, objective: str, num_separators: int = 1
) -> Forecast:
    """Estimates the records of an objective.

    Args:
        store: The tokens; "nsp" needs at least two documents.
        settings: The settings of the records. `objective` and `duplicates` are ignored.
        objective: A key of `OBJECTIVES`.
        num_separators: The number of separators between two texts.
    """
    settings = replace(settings, objective=objective, duplicates=1)
    (split,) = splits_of(store.num_documents, held_out_rate=0, seed=settings.seed)
    layout = layout_of(
        split,
        store.num_sentences,
        store.num_pieces,
        settings=settings,
        num_separators=num_separators,
    )
    instances = instances_of(
        layout,
        Range(0, 0, 0, store.num_documents, 0, store.num_sentences),
        store,
        random=Random(settings.seed),
        text_of=partial(text_of, store),
    )
    return _counted(instances, settings, num_separators=num_separators)


def original_forecast(store: TokenStore, settings: BuildSettings) -> Forecast:
    """Estimates the records of create_pretraining_data.py; `cut` and `lost` are None."""
    draws = Draws(settings.seed)
    order = draws.shuffled(store.num_documents)
    instances = (
        Instance(((0, pair.length_a), (0, pair.length_b)), int(pair.is_random))
        for place in range(len(order))
        for pair in pairs_of(
            store,
            order,
            place,
            limit=settings.max_length - NUM_SPECIALS,
            short_sequence_rate=settings.short_sequence_rate,
            draws=draws,
            advance=lambda _: None,
        )
    )
    found = _counted(instances, replace(settings, sequences_per_record=1), num_separators=1)
    return found._replace(cut=None, lost=None)


def _counted(
    instances: Iterable[Instance], settings: BuildSettings, *, num_separators: int
) -> Forecast:
    """Counts the records of instances, for which only the lengths of the texts are used."""
    max_length, most = settings.max_length, settings.sequences_per_record
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
