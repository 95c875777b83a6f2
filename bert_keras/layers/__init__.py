"""Keras layers: the parts of the encoder and the heads.

Arguments that have the name of a field of `BertConfig` have its meaning.
"""
