"""The optimizers AdamW, as in the original BERT, LAMB and Muon."""

from collections import defaultdict

import keras
import tensorflow as tf

from bert_keras.distribution.replicas import assign_local, copy_handle
from bert_keras.errors import InputError
from bert_keras.training.base_optimizer import BertOptimizer, encoder_layer, is_exempt


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(BertOptimizer):
    """AdamW as in AdamWeightDecayOptimizer of the original's optimization.py.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    Args:
        learning_rate: A number or a schedule.
        bias_correction: Whether to divide m by 1 - beta_1^t and v by 1 - beta_2^t at step t, as
            the papers of Adam and AdamW do. Without it the first steps are up to six times as
            long.
        name: The name of the optimizer.
        **kwargs: Arguments of `BertOptimizer`, such as `weight_decay_rate`.

    Example:

    ```python
    optimizer = BertAdamW(LinearWarmupDecay(1e-4, num_steps=10_000, num_warmup_steps=1_000))
    ```
    """

    def __init__(
        self, learning_rate=1e-4, *, bias_correction=False, name: str = "bert_adamw", **kwargs
    ):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **kwargs)

    def _constants(self, gain):
        beta_1_power, beta_2_power = self._beta_powers(gain.dtype)
        return {
            "beta1_power": beta_1_power,
            "beta2_power": beta_2_power,
            "beta1": tf.where(gain > 0, self.beta_1, tf.ones_like(gain)),  # 1 keeps the average
            "beta2": tf.where(gain > 0, self.beta_2, tf.ones_like(gain)),
            "epsilon": self.epsilon * tf.sqrt(1 - beta_2_power),  # for the corrected v
        }

    def update_step(self, gradient, variable, rate, **constants):
        momentum, velocity, decay = self._state_of(variable)
        if decay:
            tf.raw_ops.AssignSubVariableOp(
                resource=copy_handle(variable), value=rate * decay * variable.value
            )
        # One fused pass over the weights takes a third of the time of single operations. Its
        # float32 value of 1 - beta_2 makes a step longer by a relative 6e-6.
        tf.raw_ops.ResourceApplyAdam(
            var=copy_handle(variable),
            m=copy_handle(momentum),
            v=copy_handle(velocity),
            lr=rate,
            grad=gradient,
            **constants,
        )


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(BertOptimizer):
    """LAMB: algorithm 2 of You et al. 2020, "Large batch optimization for deep learning".

        r = m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon) + decay w
        w = w - rate (|w| / |r|) r

    m and v are those of `BertAdamW`. |w| / |r| is 1 if either norm is 0, and for the weights
    without decay, as in the code of the authors.
    """

    def __init__(self, learning_rate=1e-3, *, bias_correction=True, name: str = "lamb", **kwargs):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **kwargs)

    def _constants(self, gain):
        return {"gain": gain, "beta_powers": self._beta_powers(gain.dtype)}

    def update_step(self, gradient, variable, rate, *, gain, beta_powers):
        momentum, velocity, decay = self._state_of(variable)
        weight = variable.value
        m = momentum.value + gain * (1 - self.beta_1) * (gradient - momentum.value)
        v = velocity.value + gain * (1 - self.beta_2) * (tf.square(gradient) - velocity.value)
        assign_local(momentum, m)
        assign_local(velocity, v)
        m, v = m / (1 - beta_powers[0]), v / (1 - beta_powers[1])
        update = m / (tf.sqrt(v) + self.epsilon)
        ratio = 1.0
        if not is_exempt(variable.path):
            update += decay * weight
            weight_norm, norm = tf.norm(weight), tf.norm(update)
            ratio = tf.math.divide_no_nan(weight_norm, norm)
            ratio = tf.where((weight_norm > 0) & (norm > 0), ratio, 1.0)
        tf.raw_ops.AssignSubVariableOp(resource=copy_handle(variable), value=rate * ratio * update)


@keras.saving.register_keras_serializable(package="bert_keras")
class Muon(BertAdamW):
    """Muon for the matrices of the encoder's layers, and AdamW for all other weights.

        m = 0.95 m + 0.05 g          u = 0.05 g + 0.95 m
        w = w - rate (0.2 sqrt(max(rows, columns)) orthogonal(u) + decay w)

    `orthogonal` approximates the nearest matrix with orthonormal rows or columns. The factor gives
    the update the size that an update of AdamW has, so that both use the same learning rate and
    weight decay. The embeddings, the heads, the biases and the weights of LayerNorm are updated as
    in `BertAdamW`. The matrices need no velocity, so the state is smaller than that of AdamW.

    Sources: Jordan 2024, "Muon: an optimizer for hidden layers in neural networks", and its code;
    Liu et al. 2025, "Muon is scalable for LLM training", section 2.2, for the factor.
    """

    def __init__(self, learning_rate=1e-3, *, name: str = "muon", **kwargs):
        super().__init__(learning_rate, name=name, **kwargs)

    def build(self, var_list):
        if all(map(self._has_velocity, var_list)):
            raise InputError(
                "Muon received no matrix of an encoder layer; expected a model that trains a "
                "BertEncoder; use BertAdamW"
            )
        super().build(var_list)

    def _has_velocity(self, variable):
        return len(variable.shape) != 2 or encoder_layer(variable.path) is None

    def _update(self, grads, variables, gain):
        others, matrices = [], defaultdict(list)
        for grad, variable in zip(grads, variables, strict=True):
            if self._has_velocity(variable):
                others.append((grad, variable))
            else:
                matrices[tuple(sorted(variable.shape))].append((grad, variable))
        super()._update([grad for grad, _ in others], [variable for _, variable in others], gain)
        rate = gain * self._get_current_learning_rate()
        for shape, pairs in matrices.items():  # one product for all matrices of a shape
            averages = tf.stack([_in_shape(self._average(g, v, gain), shape) for g, v in pairs])
            steps = 0.2 * shape[1] ** 0.5 * orthogonal(averages)
            for (_, variable), step in zip(pairs, tf.unstack(steps), strict=True):
                decay = self._state_of(variable)[-1]
                step = _in_shape(step, variable.shape) + decay * variable.value
                tf.raw_ops.AssignSubVariableOp(
                    resource=copy_handle(variable), value=self._layer_rate(rate, variable) * step
                )

    def _average(self, grad, variable, gain):
        """Updates the momentum m of a matrix; returns u."""
        momentum, grad = self._state_of(variable)[0], tf.cast(grad, variable.dtype)
        m = momentum.value + tf.cast(gain, variable.dtype) * 0.05 * (grad - momentum.value)
        assign_local(momentum, m)
        return 0.05 * grad + 0.95 * m


def orthogonal(matrices):
    """Approximates the nearest matrix with orthonormal rows of each matrix.

    Five steps of a Newton-Schulz iteration move the singular values of U S V^T close to 1. Jordan
    2024 found that the result trains as well as U V^T itself.

    Args:
        matrices: float32 [N, rows, columns], with at most as many rows as columns.

    Returns:
        [N, rows, columns].
    """
    x = matrices / (tf.norm(matrices, axis=(1, 2), keepdims=True) + 1e-7)
    for _ in range(5):
        square = tf.matmul(x, x, transpose_b=True)
        x = 3.4445 * x + tf.matmul(-4.7750 * square + 2.0315 * tf.matmul(square, square), x)
    return x


def _in_shape(matrix, shape):
    """Returns a matrix or its transpose, whichever has the shape."""
    return matrix if tuple(matrix.shape) == tuple(shape) else tf.transpose(matrix)


OPTIMIZERS = {"adamw": BertAdamW, "lamb": Lamb, "muon": Muon}
