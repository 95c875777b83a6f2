"""Keras layers: the parts of the encoder and the heads.

Letters of tensor shapes, here and in the models and losses: B rows of a batch, T tokens of a row,
D hidden size, E embedding size, V vocabulary size, N attention heads, H size of a head, F
intermediate size, P masked positions, K encoder layers, M blocks of local attention in a row, Q
tokens of a block, A all blocks of a batch (M x B), S sequences in a row, W words, L labels, C
choices or candidates, G texts of an example. X is a product, such as B x T, or the number of tokens
if padding is removed.
"""

from typing import Any

Tensor = Any  # a tensor of Keras' backend, or a NumPy array
