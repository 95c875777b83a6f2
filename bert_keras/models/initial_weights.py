"""Initial weights with which the heads of the first block attend to neighbouring tokens."""

import itertools

import numpy as np
from keras import ops

from bert_keras.errors import InputError
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.models.encoder import BertEncoder

LARGEST_SCORE = 11.0  # attention score of the token to which a head attends, before the softmax
WAVELENGTH_RATIO = 100.0  # the longest wavelength of the positions divided by the shortest
OUTPUT_SCALE = 0.2  # a factor of the last kernel of each attention and feed-forward network


def start_with_local_attention(encoder: BertEncoder) -> None:
    """Replaces initial weights so that the first block attends to neighbouring tokens.

    With normally distributed weights, a model first has to learn which positions are close to each
    other. Here, one half of each embedding is the position, as sines and cosines, and the other
    half the token and the segment. The heads of the first block attend to the tokens at the offsets
    -1, 1, -2, 2 and so on, and the blocks add little to their inputs. Call it also for an encoder
    whose embeddings this one shares.

    Sources: a shift of such positions is a rotation (Vaswani et al. 2017, section 3.5); Trockman
    and Kolter 2023, "Mimetic initialization of self-attention layers"; Zhang et al. 2019, "Fixup".
    """
    config = encoder.config
    has_parts = config.has_position_table and not (config.shares_layers or config.embedding_size)
    is_even = config.hidden_size // config.num_heads % 2 == 0 and config.hidden_size % 4 == 0
    if not (has_parts and is_even and config.num_heads > 1):
        raise InputError(
            "local-attention needs learned positions, several heads of an even size, a hidden size "
            "that is a multiple of 4, no shared blocks and no embedding_size; choose normal"
        )
    half, head_size = config.hidden_size // 2, config.hidden_size // config.num_heads
    frequencies = WAVELENGTH_RATIO ** -np.linspace(0, 1, half // 2, endpoint=False)
    if isinstance(embeddings := encoder.embeddings, BertEmbeddings):
        segments = [embeddings.segment_table] if embeddings.num_segments else []
        for table in (embeddings.token_table, *segments):
            # The factor keeps the variance of the embedding.
            values = ops.convert_to_numpy(table) * np.sqrt(2)
            values[:, :half] = 0
            table.assign(values)
        positions = np.zeros(embeddings.position_table.shape)
        angles = np.outer(np.arange(len(positions)), frequencies)
        positions[:, :half] = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        embeddings.position_table.assign(2 * embeddings.initializer_stddev * positions)

    chosen = np.linspace(0, half // 2 - 1, head_size // 2).round().astype(int)
    sines = np.eye(config.hidden_size)[:, chosen]
    cosines = np.eye(config.hidden_size)[:, half // 2 + chosen]
    offsets = (sign * distance for distance in itertools.count(1) for sign in (-1, 1))
    queries = []
    for offset in itertools.islice(offsets, config.num_heads):
        sine, cosine = (wave(frequencies[chosen] * offset) for wave in (np.sin, np.cos))
        queries += [sines * cosine + cosines * sine, cosines * cosine - sines * sine]
    scale = np.sqrt(LARGEST_SCORE / np.sqrt(head_size))
    attention = encoder.blocks[0].attention
    attention.query_dense.kernel.assign(scale * np.concatenate(queries, axis=1))
    attention.key_dense.kernel.assign(
        scale * np.concatenate([sines, cosines] * config.num_heads, axis=1)
    )
    for block in encoder.blocks:
        for output in (block.attention.output_dense, block.feed_forward.output_dense):
            output.kernel.assign(OUTPUT_SCALE * ops.convert_to_numpy(output.kernel))
