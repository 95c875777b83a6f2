"""Selects the encoder layers whose outputs serve as features (Devlin et al. 2018, Table 7)."""

from typing import NamedTuple

from bert_keras.errors import InputError, check_name, counted

# Slices of the sequence of hidden states. Index 0 is the output of the embedding layer, index i the
# output of block i. "weighted-sum-all" excludes the embeddings: it is the paper's "all 12 layers".
LAYER_CHOICES = {
    "embeddings": slice(0, 1),
    "second-to-last": slice(-2, -1),
    "last": slice(-1, None),
    "weighted-sum-last-four": slice(-4, None),
    "concat-last-four": slice(-4, None),
    "weighted-sum-all": slice(1, None),
}


class FeatureLayers(NamedTuple):
    """The hidden states that a layer choice selects, and how they are combined."""

    indices: tuple[int, ...]  # indices: 0 is the embeddings, i the output of block i
    is_summed: bool  # whether they are summed with learned weights; otherwise concatenated

    def vector_size(self, hidden_size: int) -> int:
        """Returns the size of the combined vector of a word."""
        return hidden_size if self.is_summed else hidden_size * len(self.indices)


def feature_layers(name: str, *, num_layers: int) -> FeatureLayers:
    """Returns the layers that a choice selects in an encoder.

    Args:
        name: The name of the choice, a key of `LAYER_CHOICES`.
        num_layers: The number of blocks of the encoder.

    Raises:
        InputError: The name is unknown, or the encoder has fewer layers than the choice needs.
    """
    check_name(name, LAYER_CHOICES, what="choice of layers")
    indices = tuple(range(num_layers + 1)[LAYER_CHOICES[name]])
    if 0 in indices and name != "embeddings":
        raise InputError(
            f"layers is {name!r}, but the encoder has only {counted(num_layers, 'layer')}"
        )
    return FeatureLayers(indices, is_summed=name.startswith("weighted-sum"))
