"""Corpus files and a vocabulary come in; a whole folder of pretraining records goes out."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np

from bert_keras.data.masking import MaskingPolicy, replacement_ids
from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.storage import whole_folder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.documents import Documents, split, tokenized
from tfrecords_tools.instances import cut, features
from tfrecords_tools.pairs import pairs_of
from tfrecords_tools.writer import serialized, write_records

MANIFEST = "records.json"
VOCABULARY = "vocab.txt"
BATCH = 4096  # records that are masked and encoded together


@dataclass(frozen=True)
class BuildSettings:
    """What decides the bytes of the records, besides corpus and vocabulary."""

    lowercase: bool = True
    max_length: int = 128
    max_predictions: int = 20
    duplicates: int = 5  # passes over the training documents, each paired and masked anew
    short_sequence_rate: float = 0.1
    shards: int = 4
    seed: int = 12345
    held_out_rate: float = 0.0  # share of the documents, seen once, in records of their own

    def __post_init__(self):
        PretrainingSchema(self.max_length, self.max_predictions)
        MaskingPolicy(max_predictions=self.max_predictions)
        for name in ("duplicates", "shards"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in ("short_sequence_rate", "held_out_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected 0 or more, below 1")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; expected 0 or more")


def build(
    files: Iterable[str | os.PathLike],
    *,
    vocabulary: Vocabulary,
    output: str | os.PathLike,
    settings: BuildSettings,
) -> dict:
    """Writes `output` whole or not at all; returns the manifest it leaves in `records.json`."""
    files = list(files)
    with whole_folder(output) as folder:
        vocabulary.save(folder / VOCABULARY)
        tokenizer = WordPieceTokenizer(vocabulary, lowercase=settings.lowercase)
        splits = split(
            tokenized(files, tokenizer), held_out_rate=settings.held_out_rate, seed=settings.seed
        )
        manifest = {
            "format": 1,
            "settings": asdict(settings),
            "corpus": [os.path.basename(file) for file in files],
            "vocabulary": {
                "file": VOCABULARY,
                "size": len(vocabulary),
                "sha256": _sha256(folder / VOCABULARY),
            },
            "splits": {
                name: _write_split(
                    documents,
                    name=name,
                    folder=folder,
                    vocabulary=vocabulary,
                    settings=settings,
                    generator=np.random.default_rng([settings.seed, number]),
                )
                for number, (name, documents) in enumerate(splits.items())
            },
        }
        text = json.dumps(manifest, indent=2) + "\n"
        (folder / MANIFEST).write_text(text, encoding="utf-8")
    return manifest


def _write_split(
    documents: Documents,
    *,
    name: str,
    folder: Path,
    vocabulary: Vocabulary,
    settings: BuildSettings,
    generator: np.random.Generator,
) -> dict:
    """Writes one split's shards; returns its counts and checksums."""
    is_training = name == "train"
    rows = _paired(
        documents,
        passes=settings.duplicates if is_training else 1,
        name=name,
        settings=settings,
        random=Random(int(generator.integers(2**62))),
    )
    num_shards = settings.shards if is_training else 1
    if len(rows) < num_shards:
        raise InputError(f"the corpus gives {len(rows)} records, too few for {num_shards} shards")
    rows = rows[generator.permutation(len(rows))]
    shards = []
    with progress(stage=f"write {name}", unit="record", total=len(rows)) as bar:
        for number, shard_rows in enumerate(np.array_split(rows, num_shards)):
            path = folder / f"{name}-{number:05d}-of-{num_shards:05d}.tfrecord"
            records = _records(
                shard_rows,
                documents.pieces,
                vocabulary=vocabulary,
                settings=settings,
                generator=generator,
                bar=bar,
            )
            shards.append(
                {
                    "file": path.name,
                    "records": write_records(path, records),
                    "sha256": _sha256(path),
                }
            )
    return {
        "documents": len(documents),
        "sentences": sum(len(bounds) - 1 for bounds in documents.bounds),
        "pieces": documents.num_pieces,
        "records": len(rows),
        "random_next": int(rows[:, 4].sum()),
        "shards": shards,
    }


def _paired(
    documents: Documents, *, passes: int, name: str, settings: BuildSettings, random: Random
) -> np.ndarray:
    """The pairs of all passes, int64 [N,5]."""
    rows = []
    with progress(stage=f"pair {name}", unit="pair") as bar:
        for _ in range(passes):
            before = len(rows)
            rows.extend(
                pairs_of(
                    documents,
                    max_length=settings.max_length,
                    short_sequence_rate=settings.short_sequence_rate,
                    random=random,
                )
            )
            bar.update(len(rows) - before)
    return np.array(rows, np.int64)


def _records(
    rows: np.ndarray,
    pieces: np.ndarray,
    *,
    vocabulary: Vocabulary,
    settings: BuildSettings,
    generator: np.random.Generator,
    bar,
) -> Iterator[list[bytes]]:
    """Batches of serialised records of these pairs."""
    policy = MaskingPolicy(max_predictions=settings.max_predictions)
    replacements = replacement_ids(vocabulary)
    for start in range(0, len(rows), BATCH):
        pairs = cut(
            rows[start : start + BATCH], max_length=settings.max_length, generator=generator
        )
        yield serialized(
            features(
                pairs,
                pieces,
                vocabulary=vocabulary,
                length=settings.max_length,
                policy=policy,
                replacements=replacements,
                generator=generator,
            )
        )
        bar.update(len(pairs.start_a))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
