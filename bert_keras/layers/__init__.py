"""Keras layers: the parts of the encoder and the heads.

Letters of tensor shapes, here and in the models, losses and exported functions:

    B  rows of a batch         N  attention heads               C  choices, or candidates
    T  tokens of a row         H  size of a head                S  sequences in a row
    D  hidden size             F  intermediate size             W  words of a row
    E  embedding size          M  blocks of local attention     L  labels
    V  vocabulary size         Q  tokens of a block             G  texts of an example
    P  masked positions        K  encoder layers                X  a product, such as B x T
"""

from typing import Any

Tensor = Any  # of the backend, or a NumPy array
