"""The options of both writers of records, checked when they are made."""

from dataclasses import dataclass, replace

from bert_keras.data.masking import UNITS, MaskingPolicy, replacement_shares
from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import RULES, lowers
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.records.objectives import OBJECTIVES

ERRORS = ("fail", "skip", "replace")
NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]
_USUAL_PASSES = 5


@dataclass(frozen=True)
class BuildSettings:
    """What decides the bytes of the records, besides corpus and vocabulary."""

    lowercase: bool = True
    text_field: str = "text"  # of JSON lines, parquet and TFDS
    splitter: str = "en"  # a language, "lines", or "module:function"
    segmenter: str | None = None  # "module:function" that gives the words of a text
    errors: str = "fail"  # for bytes that are not UTF-8
    objective: str = "nsp"
    max_length: int = 128
    max_predictions: int = 20  # 0: plain ids, to be masked while they are read
    mask_rate: float = 0.15
    mask_unit: str = "piece"
    max_ngram: int = 1
    replacement: str = "80-10-10"
    sequences_per_record: int = 1  # at most
    duplicates: int | None = None  # passes over the training documents; None: 5, or 1 if all equal
    short_sequence_rate: float = 0.1  # of pairs
    held_out_rate: float = 0.0  # share of the documents, seen once, in records of their own
    shards: int | None = None  # None: about 100,000 records each
    seed: int = 12345

    def __post_init__(self):
        if self.objective not in OBJECTIVES:
            raise InputError(
                f"no objective is called {self.objective!r}; known: {', '.join(OBJECTIVES)}"
            )
        if self.duplicates is None:
            is_new = self.max_predictions or OBJECTIVES[self.objective].has_labels
            object.__setattr__(self, "duplicates", _USUAL_PASSES if is_new else 1)
        if self.errors not in ERRORS:
            raise InputError(f"errors is {self.errors!r}; expected one of {', '.join(ERRORS)}")
        if self.max_predictions < 0:
            raise InputError(f"max_predictions is {self.max_predictions}; expected 0 or more")
        for name in ("duplicates", "shards", "sequences_per_record"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; expected at least 1")
        _ = self.schema, self.policy  # they check what is theirs
        for name in ("short_sequence_rate", "held_out_rate"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected 0 or more, below 1")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; expected 0 or more")
        if self.segmenter and (self.mask_unit != "word" or not self.max_predictions):
            raise InputError(
                f"segmenter {self.segmenter} finds words to mask whole; it needs mask_unit 'word' "
                "and masks that are written (max_predictions over 0)"
            )

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
        """None where the records hold plain ids."""
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
            InputError: if the settings do not fit the vocabulary.
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
    """The original's options and their defaults, with the names of `BuildSettings`."""

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
        _ = self.schema  # it checks what is its own
        for name in ("max_predictions", "duplicates", "shards"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in ("short_sequence_rate", "mask_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected a share from 0 to 1")
        if self.mask_unit not in UNITS:
            raise InputError(f"mask_unit is {self.mask_unit!r}; expected {' or '.join(UNITS)}")

    @property
    def schema(self) -> PretrainingSchema:
        return PretrainingSchema(self.max_length, self.max_predictions)

    def num_predictions(self, num_pieces: int) -> int:
        """How many of the pieces of A and B are predicted; the rate counts the specials too."""
        wanted = round((num_pieces + NUM_SPECIALS) * self.mask_rate)
        return min(self.max_predictions, max(1, wanted))

    def for_vocabulary(self, vocabulary: Vocabulary) -> "GoogleSettings":
        """Returns these settings; raises InputError if the vocabulary is not WordPiece."""
        if vocabulary.rules:
            raise InputError(
                "the records of --compat google are of WordPiece; give a vocab.txt, or leave it out"
            )
        return self


Settings = BuildSettings | GoogleSettings
