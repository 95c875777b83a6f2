"""A number of units in, the dense layer that all of BERT's projections are out."""

import keras


def projection(
    units: int, *, initializer_stddev: float, dtype, name: str, activation: str | None = None
) -> keras.layers.Dense:
    """Dense with a kernel drawn from a normal distribution cut at two deviations, biases 0."""
    return keras.layers.Dense(
        units,
        activation=activation,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_stddev),
        dtype=dtype,
        name=name,
    )
