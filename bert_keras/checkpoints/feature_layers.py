"""The choices of encoder layers from which features are made (Devlin et al. 2018, Table 7)."""

from typing import NamedTuple

from bert_keras.errors import InputError, check_name

# Slices of the hidden states: 0 is the normalised sum of the three embeddings, i the output of
# block i. "weighted-sum-all" is every block without the embeddings: the paper's "all 12 layers".
LAYER_CHOICES = {
    "embeddings": slice(0, 1),
    "second-to-last": slice(-2, -1),
    "last": slice(-1, None),
    "weighted-sum-last-four": slice(-4, None),
    "concat-last-four": slice(-4, None),
    "weighted-sum-all": slice(1, None),
}


class FeatureLayers(NamedTuple):
    """The hidden states of an encoder that a choice takes, and how it combines them."""

    numbers: tuple[int, ...]  # 0 for the embeddings, i for the output of block i
    is_summed: bool  # with learned weights; otherwise they are concatenated

    def vector_size(self, hidden_size: int) -> int:
        return hidden_size if self.is_summed else hidden_size * len(self.numbers)


def feature_layers(name: str, *, num_layers: int) -> FeatureLayers:
    """Returns the layers of the choice `name` in an encoder of `num_layers` blocks.

    Raises InputError for an unknown name and for more layers than there are.
    """
    check_name(name, LAYER_CHOICES, what="choice of layers")
    numbers = tuple(range(num_layers + 1)[LAYER_CHOICES[name]])
    if 0 in numbers and name != "embeddings":
        raise InputError(f"layers is {name!r} and the encoder has {num_layers} layers")
    return FeatureLayers(numbers, is_summed=name.startswith("weighted-sum"))
