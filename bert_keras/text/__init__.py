"""Turns text into token ids: vocabularies, tokenizers, and packing of ids into model inputs."""
