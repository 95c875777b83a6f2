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

from tfrecords_tools.google.sampling import FastRandom, pairs_of
from tfrecords_tools.records.examples import instances_of, text_at
from tfrecords_tools.records.instances import filled_rows
from tfrecords_tools.records.layout import layout_of
from tfrecords_tools.records.objectives import Instance
from tfrecords_tools.records.splits import Range, splits_of
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore


class Forecast(NamedTuple):
    """Counts of the records of one pass over the documents."""

    sequences: int
    records: int  # equal to `sequences`, unless several share a record
    labels_one: int  # sequences with label 1: "random next" or "swapped"
    padding_rate: float  # of the positions
    cut_rate: float | None  # of the sequences: they are too long for a record
    lost_rate: float | None  # of the tokens: they are cut off from these sequences


def forecast(
    store: TokenStore, settings: BuildSettings, *, objective: str, num_separators: int = 1
) -> Forecast:
    """Estimates the records of an objective.

    Args:
        store: The tokens; "nsp" needs at least two documents.
        settings: The settings of the records. `objective` and `duplicates` are ignored.
        objective: A key of `RECORD_OBJECTIVES`.
        num_separators: The number of separators between two texts.
    """
    settings = replace(settings, objective=objective, duplicates=1)
    (split,) = splits_of(store.num_documents, held_out_rate=0, seed=settings.seed)
    layout = layout_of(
        split,
        store.num_sentences,
        store.num_tokens,
        settings=settings,
        num_separators=num_separators,
    )
    instances = instances_of(
        layout,
        Range(0, 0, 0, store.num_documents, 0, store.num_sentences),
        store,
        random=Random(settings.seed),
        text_at=partial(text_at, store),
    )
    return _count_records(instances, settings, num_separators=num_separators)


def original_forecast(store: TokenStore, settings: BuildSettings) -> Forecast:
    """Estimates the records of create_pretraining_data.py; `cut_rate` and `lost_rate` are None."""
    generator = FastRandom(settings.seed)
    order = generator.shuffled(store.num_documents)
    instances = (
        Instance(((0, pair.length_a), (0, pair.length_b)), int(pair.is_random))
        for pair in pairs_of(store, order, settings, generator=generator)
    )
    counts = _count_records(instances, replace(settings, sequences_per_record=1), num_separators=1)
    return counts._replace(cut_rate=None, lost_rate=None)


def _count_records(
    instances: Iterable[Instance], settings: BuildSettings, *, num_separators: int
) -> Forecast:
    """Counts the records of instances, for which only the lengths of the texts are used."""
    max_length, most = settings.max_length, settings.sequences_per_record
    full_lengths, labels_one = array("i"), 0
    for spans, label in instances:
        num_specials = 2 + num_separators * (len(spans) - 1)
        full_lengths.append(num_specials + sum(end - start for start, end in spans))
        labels_one += label
    full_lengths = np.array(full_lengths)
    lengths = np.minimum(full_lengths, max_length)
    num_records = len(lengths)
    if most > 1 and num_records:
        generator = np.random.default_rng(0)
        _, rows, _ = filled_rows(lengths, length=max_length, most=most, generator=generator)
        num_records = int(rows[-1]) + 1
    return Forecast(
        sequences=len(lengths),
        records=num_records,
        labels_one=labels_one,
        padding_rate=1 - int(lengths.sum()) / max(num_records * max_length, 1),
        cut_rate=float((full_lengths > max_length).sum()) / max(len(lengths), 1),
        lost_rate=float((full_lengths - lengths).sum()) / max(int(full_lengths.sum()), 1),
    )
