"""Counts the operations of a training step."""

from bert_keras.config import BertConfig


def flops_per_example(config: BertConfig, length: int, num_predictions: int) -> int:
    """Counts the operations of the forward and backward pass for one row of `length` positions.

    Padding counts like any other token. An addition and a multiplication are 2 operations. The
    forward pass, with hidden size D, intermediate size F, embedding size E (D in BERT), vocabulary
    size V, T = `length` and P = `num_predictions`:

        each layer              T (8 D^2 + 4 D F) + 4 T^2 D;  6 D F if it is gated
        with local attention    4 T (W + 1) D, not 4 T^2 D, if the window W is below T
        pooler, next sentence   2 D^2 + 4 D              if the config has a pooler
        masked LM               P (2 D E + 2 E V)        only at the masked positions
        embedding projection    2 T E D                  if the config has its own E

    The backward pass has twice as many operations, because a product has two gradients. Operations
    that are repeated to save memory count once. Look-ups, norms, softmax and the update do not
    count (Chowdhery et al. 2022, "PaLM", appendix B).
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
