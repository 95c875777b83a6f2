"""Defines the settings of both writers of records, which are checked when they are created."""

from dataclasses import dataclass, replace

from bert_keras.data.masking import UNITS, MaskingPolicy, replacement_shares
from bert_keras.data.schema import LONGEST_RECORD, PretrainingSchema
from bert_keras.errors import check, check_least, check_name, check_range, check_unused
from bert_keras.text.fast_tokenizer import RULES_FILE, is_uncased
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES

NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]
_DEFAULT_DUPLICATES = 5
_MOST_DUPLICATES = 10_000
_MOST_SHARDS = 99_999  # the name of a file has five digits


@dataclass(frozen=True)
class BuildSettings:
    """The settings that affect the bytes of the records, except for corpus and vocabulary."""

    lowercase: bool = True  # lower-cases the text and strips accents
    text_field: str = "text"  # field of JSON, parquet and TFDS that contains the text
    splitter: str = "en"  # of lines into sentences: a language, lines, or module:function
    segmenter: str | None = None  # of text into words for whole-word masking: module:function
    objective: str = "nsp"  # a key of `RECORD_OBJECTIVES`
    max_length: int = 128  # positions of a record
    max_predictions: int = 20  # largest number of masked positions; with 0, training masks
    mask_rate: float = 0.15  # fraction of masked tokens
    mask_unit: str = "token"  # or "word": masks whole words
    max_ngram: int = 1  # largest number of units masked in a row
    replacement: str = "80-10-10"  # percentages of [MASK], same, random token
    sequences_per_record: int = 1  # most sequences that share a record
    duplicates: int | None = None  # passes over the training documents; 5, or 1 if all are equal
    short_sequence_rate: float = 0.1  # fraction of shortened pairs
    held_out_rate: float = 0.0  # fraction of the documents kept out of training, written once
    shards: int | None = None  # number of training files; one for 100,000 records
    seed: int = 12345  # the same seed gives the same bytes

    def __post_init__(self):
        check_choice(self, "mask_unit", UNITS)
        check_name(self.objective, RECORD_OBJECTIVES, what="objective")
        if self.duplicates is None:
            passes_differ = self.max_predictions or RECORD_OBJECTIVES[self.objective].labels
            object.__setattr__(self, "duplicates", _DEFAULT_DUPLICATES if passes_differ else 1)
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
        if not self.masks_written_words:
            check_unused(self, "segmenter", reason="without masks of whole words (mask_unit=word)")

    @property
    def masks_written_words(self) -> bool:
        """Whether the records contain masks of whole words."""
        return self.max_predictions > 0 and self.mask_unit == "word"

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        return PretrainingSchema(
            self.max_length,
            self.max_predictions,
            bool(RECORD_OBJECTIVES[self.objective].labels),
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
        """Returns these settings with the vocabulary's own letter case, if its rules state one."""
        if not vocabulary.rules:
            return self
        check(
            self.lowercase or not is_uncased(vocabulary),
            f"the {RULES_FILE} lower-cases texts; omit lowercase=False (--cased), or learn it anew",
        )
        return replace(self, lowercase=is_uncased(vocabulary))


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
        check_least(self, 1, "max_predictions", "duplicates", "shards", most=_MOST_SHARDS)
        check_range(self, "a rate from 0 to 1", "short_sequence_rate", "mask_rate")
        check_choice(self, "mask_unit", UNITS)

    @property
    def schema(self) -> PretrainingSchema:
        """The schema of the records."""
        return PretrainingSchema(self.max_length, self.max_predictions)

    def for_vocabulary(self, vocabulary: Vocabulary) -> "GoogleSettings":
        """Returns these settings; raises InputError if the vocabulary is not WordPiece."""
        check(not vocabulary.rules, "GoogleSettings (--compat google) need a WordPiece vocab.txt")
        return self


Settings = BuildSettings | GoogleSettings
