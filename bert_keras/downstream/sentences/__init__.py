"""Tasks that train and score sentence embeddings."""
