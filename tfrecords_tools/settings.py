"""Defines the settings of both writers of records, which are checked when they are created."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bert_keras.data.masking import REPLACEMENTS, UNITS, MaskingPolicy, replacement_shares
from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError, check_name
from bert_keras.options import option
from bert_keras.text.fast_tokenizer import RULES, lowers
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.records.objectives import OBJECTIVES

ERRORS = ("fail", "skip", "replace")
NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]
_USUAL_PASSES = 5


@dataclass(frozen=True)
class BuildSettings:
    """The settings that affect the bytes of the records, except for corpus and vocabulary."""

    lowercase: bool = option(
        True,
        flags=("--cased",),
        action="store_const",
        const=False,
        help="keep upper case and accents",
    )
    text_field: str = option(
        "text", metavar="NAME", help="field of JSON, parquet and TFDS that holds the text"
    )
    splitter: str = option(
        "en", metavar="NAME", help="sentences: a language, lines, or module:function"
    )
    segmenter: str | None = option(
        None,
        metavar="NAME",
        told="none",
        help="the words of a text, for whole-word masking: module:function",
    )
    errors: str = option("fail", choices=ERRORS, help="what to do with lines that are not UTF-8")
    objective: str = option("nsp", choices=tuple(OBJECTIVES), help="what a record is made of")
    max_length: int = option(128, metavar="N", help="positions a record")
    max_predictions: int = option(
        20,
        metavar="N",
        help="most masked positions; 0: plain ids, to be masked while they are read",
    )
    mask_rate: float = option(0.15, metavar="RATE", help="share of a record that is masked")
    mask_unit: str = option("piece", choices=UNITS, help="what is masked together")
    max_ngram: int = option(1, metavar="N", help="most units in a row that are masked together")
    replacement: str = option(
        "80-10-10", choices=tuple(REPLACEMENTS), help="percent [MASK]-same-random"
    )
    sequences_per_record: int = option(1, metavar="N", help="at most; several fill it")
    duplicates: int | None = option(
        None,
        metavar="N",
        told="5; 1 where all were equal; google: 10",
        help="passes over the training documents",
    )
    short_sequence_rate: float = option(0.1, metavar="RATE", help="share of the pairs kept short")
    held_out_rate: float = option(
        0.0,
        flags=("--held-out",),
        metavar="RATE",
        help="share of the documents seen once, in records of their own",
    )
    shards: int | None = option(
        None, metavar="N", told="about 100,000 records each; google: 1", help="training files"
    )
    seed: int = option(12345, metavar="N", help="the same seed, the same bytes")

    def __post_init__(self):
        check_name(self.objective, OBJECTIVES, what="objective")
        if self.duplicates is None:
            is_new = self.max_predictions or OBJECTIVES[self.objective].has_labels
            object.__setattr__(self, "duplicates", _USUAL_PASSES if is_new else 1)
        if self.errors not in ERRORS:
            raise InputError(f"errors is {self.errors!r}; expected one of {', '.join(ERRORS)}")
        _expect_at_least(0, self, "max_predictions", "seed")
        _expect_at_least(1, self, "duplicates", "shards", "sequences_per_record")
        _ = self.schema, self.policy  # both check their values
        for name in ("short_sequence_rate", "held_out_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected 0 or more, below 1")
        if self.segmenter and not self.masks_written_words:
            raise InputError(
                f"segmenter {self.segmenter} finds words to mask whole; it needs mask_unit 'word' "
                "and masks that are written (max_predictions over 0)"
            )

    @property
    def masks_written_words(self) -> bool:
        """Returns whether the records contain masks of whole words."""
        return self.max_predictions > 0 and self.mask_unit == "word"

    @property
    def schema(self) -> PretrainingSchema:
        return PretrainingSchema(
            self.max_length,
            self.max_predictions,
            OBJECTIVES[self.objective].has_labels,
            self.sequences_per_record,
        )

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
        """Returns these settings with the vocabulary's own letter case, if its rules state one.

        Raises:
            InputError: The settings do not fit the vocabulary.
        """
        least = vocabulary.num_specials(2) + 2
        if self.max_length < least:
            cls, sep = vocabulary.specials.pieces[2:4]
            between = vocabulary.specials.num_separators * sep
            raise InputError(
                f"max_length is {self.max_length}; expected at least {least} with this vocabulary: "
                f"{cls} A {between} B {sep}"
            )
        if not vocabulary.rules:
            return self
        if lowers(vocabulary) and not self.lowercase:
            raise InputError(
                f"the {RULES} puts texts into lower case; leave out --cased, or learn one with it: "
                "bert-tfrecords vocab --model unigram --cased"
            )
        return replace(self, lowercase=lowers(vocabulary))


@dataclass(frozen=True, kw_only=True)
class GoogleSettings:
    """The options of the original writer, with its defaults and the names of `BuildSettings`."""

    lowercase: bool = True
    max_length: int = 128
    max_predictions: int = 20
    duplicates: int = 10
    short_sequence_rate: float = 0.1
    mask_rate: float = 0.15
    mask_unit: str = "piece"  # or "word": whole-word masking
    seed: int = 12345
    shards: int = 1

    def __post_init__(self):
        _ = self.schema  # it checks its values
        _expect_at_least(1, self, "max_predictions", "duplicates", "shards")
        for name in ("short_sequence_rate", "mask_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a share from 0 to 1")
        if self.mask_unit not in UNITS:
            raise InputError(f"mask_unit is {self.mask_unit!r}; expected {' or '.join(UNITS)}")

    @property
    def schema(self) -> PretrainingSchema:
        return PretrainingSchema(self.max_length, self.max_predictions)

    def for_vocabulary(self, vocabulary: Vocabulary) -> "GoogleSettings":
        """Returns these settings; raises InputError if the vocabulary is not WordPiece."""
        if vocabulary.rules:
            raise InputError(
                "the records of --compat google are of WordPiece; give a vocab.txt, or leave it out"
            )
        return self


Settings = BuildSettings | GoogleSettings


def _expect_at_least(least: int, settings: Settings, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < least:
            expected = "at least 1" if least else "0 or more"
            raise InputError(f"{name} is {value}; expected {expected}")


def settings_of(given: Mapping[str, Any], *, compat: str | None = None) -> Settings:
    """Creates the settings from options.

    Args:
        given: Values of fields of `BuildSettings` by name.
        compat: "google" for the settings of the original writer.

    Raises:
        InputError: The original writer does not have one of the options.
    """
    if not compat:
        return BuildSettings(**given)
    known = {each.name for each in fields(GoogleSettings)}
    for each in fields(BuildSettings):
        if each.name in given and each.name not in known:
            flags = each.metadata["flags"] or [f"--{each.name.replace('_', '-')}"]
            raise InputError(
                f"{flags[0]} does not go with --compat google, whose records are those of the "
                "original; leave one out"
            )
    return GoogleSettings(**given)
