"""The name of a layer choice in; the layers that features are made of, and how, out (Table 7)."""

from typing import NamedTuple

from bert_keras.errors import InputError

EMBEDDINGS = "embeddings"  # the sum of the three tables, normalised: what block 1 reads
LAYER_CHOICES = (
    EMBEDDINGS,
    "second-to-last",
    "last",
    "weighted-sum-last-four",
    "concat-last-four",
    "weighted-sum-all",
)


class FeatureLayers(NamedTuple):
    """Numbers of an encoder's hidden states, 0 the embeddings and i what block i puts out; summed
    under learned weights, or else set side by side."""

    numbers: tuple[int, ...]
    is_summed: bool

    def vector_size(self, hidden_size: int) -> int:
        return hidden_size if self.is_summed else hidden_size * len(self.numbers)


def check_layers(name: str) -> None:
    """Raises InputError for a name that is not in LAYER_CHOICES."""
    if name not in LAYER_CHOICES:
        raise InputError(f"layers is {name!r}; expected one of {', '.join(LAYER_CHOICES)}")


def feature_layers(name: str, *, num_layers: int) -> FeatureLayers:
    """Of an encoder of so many blocks. The sum of all is that of the blocks, as the paper's "all 12
    layers". Raises InputError for an unknown name and for more layers than there are.
    """
    check_layers(name)
    first, last = {
        EMBEDDINGS: (0, 0),
        "second-to-last": (num_layers - 1, num_layers - 1),
        "last": (num_layers, num_layers),
        "weighted-sum-all": (1, num_layers),
    }.get(name, (num_layers - 3, num_layers))
    if first < (name != EMBEDDINGS):
        raise InputError(f"layers is {name!r} and the encoder has {num_layers} layers")
    return FeatureLayers(tuple(range(first, last + 1)), name.startswith("weighted-sum"))
