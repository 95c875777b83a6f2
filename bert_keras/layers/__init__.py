"""Keras layers: the parts of the encoder and the heads."""
