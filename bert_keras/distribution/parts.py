"""Splits the batch of a replica into parts, and combines the results of all parts."""

import tensorflow as tf


def part_of(structure, part, num_parts: int):
    """Returns the rows of one part of every tensor.

    A part has rows / `num_parts` rows, rounded up; the last parts may have fewer rows or none.
    """
    if num_parts == 1:
        return structure

    def rows(tensor):
        if tensor is None:
            return None
        size = -(-(tensor.shape[0] or tf.shape(tensor)[0]) // num_parts)
        if tensor.shape[0] is None or tensor.shape[0] % num_parts:
            return tensor[part * size : (part + 1) * size]
        return tf.reshape(tensor, (num_parts, size, *tf.unstack(tf.shape(tensor)[1:])))[part]

    return tf.nest.map_structure(rows, structure)


def accumulated(part_gradients, num_parts: int, means, gradients):
    """Adds the results of all other parts to `means` and `gradients`, those of part 0."""
    indices = [index for index, each in enumerate(gradients) if each is not None]

    def add(part, means, *sums):
        part_means, addends = part_gradients(part)
        # The identity operations keep the additions separate. Otherwise Grappler combines large
        # sums of three into temporary variables, which a loop creates twice
        # (tensorflow/tensorflow, issue 23780).
        for index in reversed(indices):  # in the order in which they are computed
            addends[index], part = tf.identity_n([addends[index], part])
        sums = [s + addends[index] for s, index in zip(sums, indices, strict=True)]
        return part + 1, means + part_means, *sums

    start = (tf.constant(1), means, *(gradients[index] for index in indices))
    _, means, *sums = tf.while_loop(
        lambda part, *_: part < num_parts, add, start, parallel_iterations=1
    )
    for index, each in zip(indices, sums, strict=True):
        gradients[index] = each
    return means, gradients


def outputs_of_parts(part_outputs, num_parts: int, num_rows):
    """Concatenates the outputs of all parts, which are computed one after another.

    Args:
        part_outputs: Returns the outputs of a part, any structure of tensors, for its index.
        num_parts: The number of parts.
        num_rows: The number of rows of all parts together.

    Returns:
        The structure of tensors [num_rows, ...].
    """
    structure = part_outputs(0)
    first = tf.nest.flatten(structure)
    size = tf.shape(first[0])[0]
    arrays = [
        tf.TensorArray(each.dtype, num_parts, element_shape=each.shape).write(0, each)
        for each in first
    ]

    def write(part, *arrays):
        outputs = tf.nest.flatten(part_outputs(part))
        *outputs, next_part = tf.identity_n([*outputs, part + 1])  # the next part must wait
        arrays = [
            array.write(part, _padded(each, size))
            for array, each in zip(arrays, outputs, strict=True)
        ]
        return next_part, *arrays

    start = (tf.constant(1), *arrays)
    _, *arrays = tf.while_loop(
        lambda part, *_: part < num_parts, write, start, parallel_iterations=1
    )
    outputs = [
        tf.reshape(array.stack(), (-1, *tf.unstack(tf.shape(each)[1:])))[:num_rows]
        for array, each in zip(arrays, first, strict=True)
    ]
    outputs = [
        tf.ensure_shape(output, (None, *each.shape[1:]))
        for output, each in zip(outputs, first, strict=True)
    ]
    return tf.nest.pack_sequence_as(structure, outputs)


def _padded(tensor, num_rows):
    """Appends rows of 0 to a tensor."""
    sizes = [[0, num_rows - tf.shape(tensor)[0]], *(len(tensor.shape) - 1) * [[0, 0]]]
    return tf.pad(tensor, sizes)
