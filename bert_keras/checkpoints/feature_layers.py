"""The choices of encoder layers from which features are made (Devlin et al. 2018, Table 7)."""

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
    """The hidden states of an encoder that a choice takes, and how it combines them."""

    numbers: tuple[int, ...]  # 0 for the embeddings, i for the output of block i
    is_summed: bool  # with learned weights; otherwise they are concatenated

    def vector_size(self, hidden_size: int) -> int:
        return hidden_size if self.is_summed else hidden_size * len(self.numbers)


def check_layers(name: str) -> None:
    """Raises InputError for a name that is not in LAYER_CHOICES."""
    if name not in LAYER_CHOICES:
        raise InputError(f"layers is {name!r}; expected one of {', '.join(LAYER_CHOICES)}")


def feature_layers(name: str, *, num_layers: int) -> FeatureLayers:
    """Returns the layers of the choice `name` in an encoder of `num_layers` blocks. Every block is
    in "weighted-sum-all", and not the embeddings: the paper's "all 12 layers".

    Raises InputError for an unknown name and for more layers than there are.
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
