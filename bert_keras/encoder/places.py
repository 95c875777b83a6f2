"""Hidden states and positions in, the states that stand there out."""

from keras import ops


def states_at(hidden_BTD, positions_BP):
    """[X, D] with X = B x P, row after row; two dimensions suit the dense layer that follows."""
    batch, length, _ = ops.shape(hidden_BTD)
    first_row_B1 = ops.expand_dims(ops.arange(batch, dtype="int32") * length, axis=1)
    rows_X = ops.reshape(ops.cast(positions_BP, "int32") + first_row_B1, (-1,))
    return ops.take(ops.reshape(hidden_BTD, (-1, hidden_BTD.shape[-1])), rows_X, axis=0)
