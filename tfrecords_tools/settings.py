"""Defines the settings of both writers of records, and the manifest, which is written last."""

import glob
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bert_keras.data.masking import UNITS, MaskingPolicy, replacement_shares
from bert_keras.data.record_file import LONGEST_RECORD, PretrainingSchema
from bert_keras.errors import InputError, check_choice, check_least, check_range, check_unused
from bert_keras.fields import setting
from bert_keras.files import StrPath, json_object
from bert_keras.text import fast_tokenizer
from bert_keras.text.vocab import Vocabulary

MANIFEST = "manifest.json"
FORMAT = 2
SHARD_FIELDS = ("file", "records", "bytes", "sha256")  # of each record file in the manifest
_LIBRARIES = ("bert-keras", "numpy", "tokenizers", "sentencex")  # they affect the records' bytes
NEXT_SENTENCE = ("true next", "random next")
# Objective -> the meanings of the labels 0 and 1; () for records without labels
LABEL_NAMES: dict[str, tuple[str, ...]] = {
    "nsp": NEXT_SENTENCE,
    "sop": ("true order", "changed order"),
    "full-sentences": (),
    "doc-sentences": (),
}
NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]
_MAX_SHARDS = 99_999  # file names have five digits


@dataclass(frozen=True)
class BuildSettings:
    """The settings that affect the bytes of the records, except for corpus and vocabulary."""

    lowercase: bool = setting(True, "whether text is lower-cased and loses its accents")
    text_field: str = setting("text", "field of JSON or parquet with the text")
    splitter: str = setting("en", "sentence rules: a language, lines, or module:function")
    segmenter: str | None = setting(None, "function that finds words to mask, as module:function")
    objective: str = setting("nsp", "pretraining objective")
    max_length: int = setting(128, "maximum number of tokens of a record")
    max_predictions: int = setting(20, "maximum number of masks; 0 masks in training")
    mask_rate: float = setting(0.15, "fraction of masked tokens")
    mask_unit: str = setting("token", "what is masked: token, or word, with all its tokens")
    max_ngram: int = setting(1, "maximum number of units masked in a row")
    replacement: str = setting("80-10-10", "percentages of [MASK], same, random token")
    sequences_per_record: int = setting(1, "maximum number of sequences in a record")
    duplicates: int | None = setting(None, "passes over the documents (default: 5; google: 10)")
    short_sequence_rate: float = setting(0.1, "fraction of shortened pairs")
    held_out_rate: float = setting(0.0, "fraction of documents kept out of training")
    shards: int | None = setting(None, "training files (default: one per 100,000 records)")
    seed: int = setting(12345, "seed; the same seed gives the same bytes")

    def __post_init__(self):
        check_choice(self, "mask_unit", UNITS)
        check_choice(self, "objective", LABEL_NAMES)
        if self.duplicates is None:
            passes_differ = self.max_predictions or LABEL_NAMES[self.objective]
            object.__setattr__(self, "duplicates", 5 if passes_differ else 1)
        check_least(self, 0, "seed", most=2**63 - 1)
        check_least(self, 1, "duplicates", most=10_000)
        check_least(self, 1, "sequences_per_record", most=LONGEST_RECORD)
        if self.shards is not None:
            check_least(self, 1, "shards", most=_MAX_SHARDS)
        _ = self.schema, self.policy  # both check their values
        check_range(self, "a rate in [0, 1)", "short_sequence_rate", "held_out_rate")
        if not self.max_predictions:
            masking = ("mask_rate", "mask_unit", "max_ngram", "replacement")
            reason = "with max_predictions=0: training masks the tokens (bert-keras pretrain --set)"
            check_unused(self, *masking, reason=reason)
        if not self.masks_written_words:
            check_unused(self, "segmenter", reason="without masks of whole words (mask_unit=word)")

    @property
    def masks_written_words(self) -> bool:
        """Whether the records contain masks of whole words."""
        return self.max_predictions > 0 and self.mask_unit == "word"

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        has_labels = bool(LABEL_NAMES[self.objective])
        sizes = self.max_length, self.max_predictions
        return PretrainingSchema(*sizes, has_labels, self.sequences_per_record)

    @property
    def policy(self) -> MaskingPolicy | None:
        """The masking policy, or None if the records contain plain ids."""
        if not self.max_predictions:
            return None
        return MaskingPolicy(
            mask_rate=self.mask_rate,
            max_predictions=self.max_predictions,
            unit=self.mask_unit,
            max_ngram=self.max_ngram,
            **replacement_shares(self.replacement),
        )

    def for_vocabulary(self, vocabulary: Vocabulary) -> "BuildSettings":
        """Returns these settings with the vocabulary's own letter case, if its rules state one."""
        if not vocabulary.rules:
            return self
        is_uncased = fast_tokenizer.is_uncased(vocabulary)
        if is_uncased and not self.lowercase:
            raise InputError("the tokenizer.json lower-cases texts; omit lowercase=False (--cased)")
        return replace(self, lowercase=is_uncased)


@dataclass(frozen=True, kw_only=True)
class GoogleSettings:
    """The options of the original writer, with its defaults and the names of `BuildSettings`."""

    lowercase: bool = True
    max_length: int = 128
    max_predictions: int = 20
    duplicates: int = 10
    short_sequence_rate: float = 0.1
    mask_rate: float = 0.15
    mask_unit: str = "token"  # or "word": whole-word masking
    seed: int = 12345
    shards: int = 1

    def __post_init__(self):
        _ = self.schema  # it checks its values
        check_least(self, 1, "max_predictions", "duplicates", "shards", most=_MAX_SHARDS)
        check_range(self, "a rate from 0 to 1", "short_sequence_rate", "mask_rate")
        check_choice(self, "mask_unit", UNITS)

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        return PretrainingSchema(self.max_length, self.max_predictions)

    def for_vocabulary(self, vocabulary: Vocabulary) -> "GoogleSettings":
        """Returns these settings; raises InputError if the vocabulary is not WordPiece."""
        if vocabulary.rules:
            raise InputError("GoogleSettings (--compat google) need a WordPiece vocab.txt")
        return self


Settings = BuildSettings | GoogleSettings


def read_manifest(folder: StrPath) -> dict[str, Any] | None:
    """Reads the manifest of a folder; returns None if there is no manifest."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    values = json_object(path)
    if values.get("format") != FORMAT:
        raise InputError(f"{path} is not of the format {FORMAT}; write the records again")
    return values


def shards_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the entries of all record files of a manifest by name."""
    return {each["file"]: each for split in manifest["splits"].values() for each in split["shards"]}


def vocabulary_of_files(records: Sequence[StrPath], *, file: str | None = None) -> Vocabulary:
    """Reads a vocabulary `file`, by default the vocabulary in the folder of the first records."""
    if file:
        return fast_tokenizer.vocabulary_from(file)
    pattern = os.fspath(records[0])
    first = Path(next(iter(sorted(glob.glob(pattern))), pattern))
    return fast_tokenizer.records_vocabulary(first.parent if first.is_file() else first)


def manifest_head(settings: Settings, vocabulary: Vocabulary, inputs: Sequence[dict]) -> dict:
    """Returns the entries of a manifest that are known before the records are written."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {
        "format": FORMAT,
        "compat": "google" if isinstance(settings, GoogleSettings) else None,
        "settings": asdict(settings),
        "versions": {"python": platform.python_version(), **libraries},
        "inputs": inputs,
        "vocabulary": {
            "file": fast_tokenizer.vocabulary_file(vocabulary)[0],
            "size": len(vocabulary),
            "sha256": fast_tokenizer.vocabulary_sha256(vocabulary),
        },
        "schema": asdict(settings.schema),
    }


def check_same_build(plan: Path, head: Mapping[str, Any], *, folder: Path) -> None:
    """Raises InputError for the first value of `head` that differs in the `plan` of a build."""
    before, now = (
        {
            "format": each["format"],
            "compat": each["compat"],
            **each["settings"],
            **each["versions"],
            "vocabulary": each["vocabulary"]["sha256"],
            **{f"the SHA-256 of {entry['path']}": entry["sha256"] for entry in each["inputs"]},
            "the order of the files": [entry["path"] for entry in each["inputs"]],
        }
        for each in (json_object(plan), head)
    )
    for name in [*now, *before]:
        if now.get(name) != before.get(name):
            raise InputError(
                f"{name} is {now.get(name)}, but was {before.get(name)} when {folder} was begun; "
                "repeat the command that began it, or remove that folder to start again"
            )


def split_summary(shards: Sequence[dict], *, summed: Sequence[str], **totals: int) -> dict:
    """Returns the entry of a split: `totals`, the counts `summed` over the shards, the shards."""
    return {
        **totals,
        **{name: sum(each[name] for each in shards) for name in summed},
        "shards": [{name: each[name] for name in SHARD_FIELDS} for each in shards],
    }


def folder_files(manifest: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, str]:
    """Returns the texts of the vocabulary and, last, of the manifest, by the names of the files."""
    text = json.dumps(manifest, indent=2) + "\n"
    return dict([fast_tokenizer.vocabulary_file(vocabulary), (MANIFEST, text)])
