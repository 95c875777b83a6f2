"""A config and a shape in, the operations of one training example out."""

from bert_keras.config import BertConfig


def flops_per_example(config: BertConfig, length: int, num_predictions: int) -> int:
    """Of forward and backward over one row of `length` positions, padding as all else.

    Forward, an addition and a multiplication being 2 operations, of D hidden, F intermediate,
    E embedding (D in BERT), V pieces, T = `length`, P = `num_predictions`:

        each layer              T (8 D^2 + 4 D F) + 4 T^2 D
        pooler, next sentence   2 D^2 + 4 D              where the config has a pooler
        masked LM               P (2 D E + 2 E V)        its gathered positions alone
        embeddings projected    2 T E D                  where E is the config's own

    Backward is twice that: a product has two gradients. What is computed twice to save memory
    counts once; look-ups, norms, softmax and the update not at all (Chowdhery et al. 2022, "PaLM",
    appendix B).
    """
    size, intermediate = config.hidden_size, config.intermediate_size
    dense = length * (8 * size**2 + 4 * size * intermediate)
    forward = config.num_layers * (dense + 4 * length**2 * size)
    if config.has_pooler:
        forward += 2 * size**2 + 4 * size
    embedding = config.embedding_size or size
    forward += num_predictions * (2 * size * embedding + 2 * embedding * config.vocab_size)
    if config.embedding_size:
        forward += 2 * length * embedding * size
    return 3 * forward
