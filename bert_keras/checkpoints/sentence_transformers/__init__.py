"""The folders of sentence-transformers: an encoder, its pooling, and the modules after it."""
