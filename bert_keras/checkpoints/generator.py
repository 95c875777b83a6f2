"""Derives the generator of a replaced-token model: its configuration and its checkpoint."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.architectures import MASKED_LM
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig
from bert_keras.errors import InputError

_EMBEDDINGS, _GENERATOR = "encoder/embeddings/", "generator/"


def generator_size(metadata: ModelMetadata) -> float:
    """Returns the size of the generator that the metadata of a replaced-token model state.

    Raises:
        InputError: The size is not a number above 0, up to 1.
    """
    size: Any = metadata.task.get("generator_size")
    if not isinstance(size, int | float) or not 0 < size <= 1:
        raise InputError(
            f"generator_size of a {metadata.model} is {size!r}; expected more than 0, up to 1"
        )
    return size


def generator_config(config: BertConfig, size: float) -> BertConfig:
    """Returns the configuration of a generator.

    It has the layers, the embeddings and the head size of its discriminator, and the fraction
    `size` of its attention heads, hidden size and intermediate size. Source: Clark et al. 2020,
    section 3.2 and table 6.

    Args:
        config: The configuration of the discriminator.
        size: The fraction; there is at least one head.
    """
    num_heads = max(1, round(size * config.num_heads))
    hidden_size = config.hidden_size // config.num_heads * num_heads
    embedding_size = config.embedding_size or config.hidden_size
    return dataclasses.replace(
        config,
        hidden_size=hidden_size,
        num_heads=num_heads,
        intermediate_size=max(1, config.intermediate_size * num_heads // config.num_heads),
        embedding_size=0 if embedding_size == hidden_size else embedding_size,
        has_pooler=False,
    )


def is_shared(name: str) -> bool:
    """Returns whether a generator has the weight `name` of its discriminator.

    It shares the tables and the LayerNorm of the embeddings, but not their projection.
    """
    return name.startswith(_EMBEDDINGS) and not name.startswith(f"{_EMBEDDINGS}projection/")


def generator_of(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the generator of a replaced-token model as a BertMaskedLM.

    Args:
        checkpoint: The checkpoint of a BertReplacedTokenPretrainer.
    """
    metadata = checkpoint.metadata
    config = generator_config(metadata.config, generator_size(metadata))

    def of_generator(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
        return {
            name.removeprefix(_GENERATOR): tensor
            for name, tensor in tensors.items()
            if is_shared(name) or name.startswith(_GENERATOR)
        }

    if (state := checkpoint.state) is not None:
        state = dataclasses.replace(
            state,
            momentums=of_generator(state.momentums),
            velocities=of_generator(state.velocities),
        )
    return dataclasses.replace(
        checkpoint,
        metadata=metadata.of_model(MASKED_LM.name, keeps_head=False, config=config),
        tensors=of_generator(checkpoint.tensors),
        state=state,
    )
