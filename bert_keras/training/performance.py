"""Counts the operations of a training step."""

from bert_keras.config import BertConfig


def flops_per_example(config: BertConfig, length: int, num_predictions: int) -> int:
    """Counts the operations of the forward and backward pass for one row of `length` positions.

    Only matrix products count, with 2 operations for an addition and a multiplication, and padding
    counts like tokens. The backward pass has twice as many operations as the forward pass.
    Operations that are repeated to save memory count once (Chowdhery et al. 2022, appendix B).
    """
    size, intermediate = config.hidden_size, config.intermediate_size
    dense = length * (8 * size**2 + (6 if config.is_gated else 4) * size * intermediate)
    forward = config.num_layers * dense
    for index in range(config.num_layers):
        context = min(length, config.local_window + 1) if config.is_local(index) else length
        forward += 4 * length * context * size
    if config.has_pooler:
        forward += 2 * size**2 + 4 * size
    embedding = config.embedding_size or size
    forward += num_predictions * (2 * size * embedding + 2 * embedding * config.vocab_size)
    if config.embedding_size:
        forward += 2 * length * embedding * size
    return 3 * forward
