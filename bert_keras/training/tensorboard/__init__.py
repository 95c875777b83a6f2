"""Data for TensorBoard besides losses: norms, performance, samples and token embeddings."""
