"""The options of the original writer, checked when made."""

from dataclasses import dataclass

from bert_keras.data.masking import UNITS
from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError

NUM_SPECIALS = 3  # [CLS] A [SEP] B [SEP]


@dataclass(frozen=True, kw_only=True)
class GoogleSettings:
    """The original's options and their defaults, in the names of `BuildSettings`."""

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
