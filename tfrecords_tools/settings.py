"""Defines the settings of both writers of records, which are checked when they are created."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bert_keras.data.masking import REPLACEMENTS, UNITS, MaskingPolicy, replacement_shares
from bert_keras.data.schema import LONGEST_RECORD, PretrainingSchema
from bert_keras.errors import (
    InputError,
    check_choice,
    check_least,
    check_name,
    check_range,
    check_unused,
)
from bert_keras.options import flag_of, option
from bert_keras.text.fast_tokenizer import RULES_FILE, is_uncased
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inputs.decoding import ERRORS
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES

NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]
_DEFAULT_DUPLICATES = 5
_MOST_DUPLICATES = 10_000
_MOST_SHARDS = 99_999  # the name of a file has five digits


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
        "text", metavar="NAME", help="field of JSON, parquet and TFDS that contains the text"
    )
    splitter: str = option(
        "en",
        metavar="NAME",
        help="splits lines into sentences: a language, lines (no splitting), or module:function",
    )
    segmenter: str | None = option(
        None,
        metavar="NAME",
        default_text="none",
        help="splits text into words for whole-word masking: module:function",
    )
    errors: str = option("fail", choices=ERRORS, help="what to do with lines that are not UTF-8")
    objective: str = option(
        "nsp", choices=tuple(RECORD_OBJECTIVES), help="pretraining objective of the records"
    )
    max_length: int = option(128, metavar="N", help="positions per record")
    max_predictions: int = option(
        20,
        metavar="N",
        help="largest number of masked positions; with 0, training draws the masks",
    )
    mask_rate: float = option(0.15, metavar="RATE", help="fraction of masked tokens")
    mask_unit: str = option("piece", choices=UNITS, help="masks subwords (piece) or whole words")
    max_ngram: int = option(1, metavar="N", help="largest number of units masked in a row")
    replacement: str = option(
        "80-10-10", choices=tuple(REPLACEMENTS), help="percentages of [MASK], same, random token"
    )
    sequences_per_record: int = option(1, metavar="N", help="most sequences that share a record")
    duplicates: int | None = option(
        None,
        metavar="N",
        default_text="5; 1 if all passes are equal; 10 for google",
        help="passes over the training documents",
    )
    short_sequence_rate: float = option(0.1, metavar="RATE", help="fraction of shortened pairs")
    held_out_rate: float = option(
        0.0,
        flags=("--held-out",),
        metavar="RATE",
        help="fraction of the documents that are kept out of training and written once",
    )
    shards: int | None = option(
        None,
        metavar="N",
        default_text="one per 100,000 records; 1 for google",
        help="number of training files",
    )
    seed: int = option(12345, metavar="N", help="the same seed gives the same bytes")

    def __post_init__(self):
        check_name(self.objective, RECORD_OBJECTIVES, what="objective")
        if self.duplicates is None:
            passes_differ = self.max_predictions or RECORD_OBJECTIVES[self.objective].has_labels
            object.__setattr__(self, "duplicates", _DEFAULT_DUPLICATES if passes_differ else 1)
        check_choice(self, "errors", ERRORS)
        check_least(self, 0, "max_predictions")
        check_least(self, 0, "seed", most=2**63 - 1)
        check_least(self, 1, "duplicates", most=_MOST_DUPLICATES)
        check_least(self, 1, "sequences_per_record", most=LONGEST_RECORD)
        if self.shards is not None:
            check_least(self, 1, "shards", most=_MOST_SHARDS)
        _ = self.schema, self.policy  # both check their values
        check_range(self, "a rate in [0, 1)", "short_sequence_rate", "held_out_rate")
        if not self.max_predictions:
            masking = ("mask_rate", "mask_unit", "max_ngram", "replacement")
            reason = "with max_predictions=0: training masks the tokens (bert-keras pretrain --set)"
            check_unused(self, *masking, reason=reason)
        if self.segmenter and not self.masks_written_words:
            raise InputError(
                f"segmenter is {self.segmenter}, which only masking of whole words uses; set "
                "mask_unit to 'word' and max_predictions to at least 1, or leave out segmenter"
            )

    @property
    def masks_written_words(self) -> bool:
        """Returns whether the records contain masks of whole words."""
        return self.max_predictions > 0 and self.mask_unit == "word"

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        return PretrainingSchema(
            self.max_length,
            self.max_predictions,
            RECORD_OBJECTIVES[self.objective].has_labels,
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
        min_length = vocabulary.num_specials(2) + 2
        if self.max_length < min_length:
            cls, sep = vocabulary.specials.tokens[2:4]
            between = vocabulary.specials.num_separators * sep
            raise InputError(
                f"max_length is {self.max_length}; expected at least {min_length} with this "
                f"vocabulary: {cls} A {between} B {sep}"
            )
        if not vocabulary.rules:
            return self
        if is_uncased(vocabulary) and not self.lowercase:
            raise InputError(
                f"the {RULES_FILE} lower-cases texts; leave out --cased, or learn a cased "
                "vocabulary: bert-tfrecords vocab --model unigram --cased"
            )
        return replace(self, lowercase=is_uncased(vocabulary))


# The settings that a survey of a corpus uses, and those that it uses only with a vocabulary.
SURVEY_FIELDS = ("text_field", "splitter")
FORECAST_FIELDS = (
    *("lowercase", "objective", "max_length", "short_sequence_rate"),
    *("sequences_per_record", "seed"),
)


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
        check_least(self, 1, "max_predictions", "duplicates", "shards", most=_MOST_SHARDS)
        for name in ("short_sequence_rate", "mask_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a rate from 0 to 1")
        check_choice(self, "mask_unit", UNITS)

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        return PretrainingSchema(self.max_length, self.max_predictions)

    def for_vocabulary(self, vocabulary: Vocabulary) -> "GoogleSettings":
        """Returns these settings; raises InputError if the vocabulary is not WordPiece."""
        if vocabulary.rules:
            raise InputError(
                f"the vocabulary is a {RULES_FILE}; --compat google expects WordPiece: give a "
                "vocab.txt"
            )
        return self


Settings = BuildSettings | GoogleSettings


def settings_of(options: Mapping[str, Any], *, compat: str | None = None) -> Settings:
    """Creates the settings from options.

    Args:
        options: Values of fields of `BuildSettings` by name.
        compat: "google" for the settings of the original writer.

    Raises:
        InputError: The original writer does not have one of the options.
    """
    if not compat:
        return BuildSettings(**options)
    known = {each.name for each in fields(GoogleSettings)}
    for each in fields(BuildSettings):
        if each.name in options and each.name not in known:
            raise InputError(
                f"{flag_of(each)} cannot be combined with --compat google, because the original "
                "has no such option; leave out one of them"
            )
    return GoogleSettings(**options)
