"""Hidden states and positions in, the states that stand there out."""

from keras import ops


def states_at(hidden_BTD, positions_BP):
    """[X, D] with X = B x P, row after row; two dimensions suit the dense layer that follows."""
    batch, length, _ = ops.shape(hidden_BTD)
    first_row_B1 = ops.expand_dims(ops.arange(batch, dtype="int32") * length, axis=1)
    rows_X = ops.reshape(ops.cast(positions_BP, "int32") + first_row_B1, (-1,))
    return ops.take(ops.reshape(hidden_BTD, (-1, hidden_BTD.shape[-1])), rows_X, axis=0)


def last_places(input_mask_BT):
    """int32 [B, 1]: where the last token stands that is not padding; 0 where all is."""
    places_T = ops.arange(ops.shape(input_mask_BT)[1], dtype="int32")
    is_real_BT = ops.cast(ops.cast(input_mask_BT, "bool"), "int32")
    return ops.max(is_real_BT * places_T, axis=1, keepdims=True)
