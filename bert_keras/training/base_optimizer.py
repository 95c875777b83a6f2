"""The base class of the optimizers, and which weights decay and at which learning rate."""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf

from bert_keras.distribution.numerics import check_weight_dtypes
from bert_keras.distribution.replicas import add_local, assign_local, sum_over_replicas
from bert_keras.errors import InputError

_HYPERPARAMETERS = (
    *("weight_decay_rate", "beta_1", "beta_2", "epsilon", "bias_correction"),
    *("max_gradient_norm", "layer_rate_decay", "dynamic_loss_scale"),
)
_INITIAL_SCALE, _STEPS_TO_DOUBLE = 2.0**15, 2000


class BertOptimizer(keras.optimizers.Optimizer):
    """Base class of the optimizers. It sums, clips and checks gradients over all replicas.

    Each step does the following:

    1. It adds the gradients of all replicas.
    2. It scales all gradients down if their global norm is greater than `max_gradient_norm` (0
       disables this). For callbacks, variables keep the norms before the scaling: `gradient_norm`,
       a float32 scalar, and `gradient_norms`, float32 [number of weights].
    3. If the global norm is not finite, all replicas leave weights and averages unchanged. The step
       still counts, because `iterations` is the position in the data. `skipped` counts such steps,
       and `last_skipped` is the newest of them (counted from 0).
    4. Every replica applies the same update to its own copy of the weights. Biases and LayerNorm's
       gamma and beta have no weight decay. The learning rate of layer l of L is multiplied by
       `layer_rate_decay` to the power of L - l, where the embeddings are layer 0. The learning rate
       of the heads is not changed (Sun et al. 2019, "How to fine-tune BERT", section 5.3.4).

    With `dynamic_loss_scale`, which models in float16 enable, the loss is multiplied by
    `loss_scale`. The scale is halved if a gradient of any replica is not finite; `skipped` counts
    such a step only if the scale cannot be halved. The scale is doubled after 2,000 finite steps
    (Micikevicius et al. 2018).

    Args:
        learning_rate: A number or a schedule.
        weight_decay_rate: The factor of the weights in the update.
        beta_1: The decay rate of the momentum, the average of the gradients.
        beta_2: The decay rate of the velocity, the average of the squared gradients.
        epsilon: Is added to the square root of the velocity.
        bias_correction: Whether to correct both averages for their initial value of 0.
    """

    def __init__(  # noqa: PLR0913 - hyperparameters, as in Keras' optimizers
        self,
        learning_rate,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool,
        max_gradient_norm: float = 1.0,
        layer_rate_decay: float = 1.0,
        dynamic_loss_scale: bool = False,
        name: str,
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.max_gradient_norm = max_gradient_norm
        self.layer_rate_decay = layer_rate_decay
        self.dynamic_loss_scale = dynamic_loss_scale

    def build(self, var_list):
        if self.built:
            return
        check_weight_dtypes(variable.dtype for variable in var_list)
        paths = [variable.path for variable in var_list]
        if self.layer_rate_decay != 1 and not any(map(encoder_layer, paths)):
            raise InputError(
                f"layer_rate_decay is {self.layer_rate_decay}, but the optimizer received no "
                "weight of an encoder layer; expected a model that trains a BertEncoder; leave "
                "layer_rate_decay out"
            )
        super().build(var_list)
        self._momentums, self._velocities = [], []
        for variable in var_list:
            self._momentums.append(self.add_variable_from_reference(variable, "momentum"))
            if self._has_velocity(variable):
                velocity = self.add_variable_from_reference(variable, "velocity")
            else:
                velocity = None
            self._velocities.append(velocity)
        self.gradient_norm = self.add_variable((), dtype="float32", name="gradient_norm")
        self.gradient_norms = self.add_variable(
            (len(var_list),), dtype="float32", name="gradient_norms"
        )
        self.skipped = self.add_variable((), dtype="int64", name="skipped")
        self.last_skipped = self.add_variable((), dtype="int64", name="last_skipped")
        self._decay_rates = [
            0.0 if is_exempt(variable.path) else self.weight_decay_rate for variable in var_list
        ]
        self._rate_factors = layer_rates(paths, decay=self.layer_rate_decay)
        if self.dynamic_loss_scale:
            initial = keras.initializers.Constant(_INITIAL_SCALE)
            self.loss_scale = self.add_variable((), initial, dtype="float32", name="loss_scale")
            self._finite_steps = self.add_variable((), dtype="int32", name="finite_steps")

    def scale_loss(self, loss):
        if not self.dynamic_loss_scale:
            return loss
        return loss * tf.cast(self.loss_scale.value, loss.dtype)

    def apply(self, grads, trainable_variables=None):
        """Updates the weights. Must be called in replica context.

        Args:
            grads: One gradient for each weight; weights with the gradient `None` are not changed.
            trainable_variables: The weights; by default those with which the optimizer was built.
        """
        if trainable_variables is None:
            trainable_variables = self._trainable_variables
        self.build(trainable_variables)
        self._check_variables_are_known(trainable_variables)  # raises ValueError
        variables = [v for g, v in zip(grads, trainable_variables, strict=True) if g is not None]
        # The gradient of a lookup table is sparse and may repeat rows; the conversion adds them.
        grads = sum_over_replicas([tf.convert_to_tensor(g) for g in grads if g is not None])
        if self.dynamic_loss_scale:
            grads = [g / tf.cast(self.loss_scale.value, g.dtype) for g in grads]
        norm = self._store_norms(grads, variables)
        is_finite = tf.math.is_finite(norm)
        scale = tf.where(is_finite, self._clipping_scale(norm), 0.0)
        grads = [tf.math.multiply_no_nan(g, tf.cast(scale, g.dtype)) for g in grads]
        self._update(grads, variables, tf.cast(is_finite, "float32"))
        self._count_skipped(is_finite)
        if self.dynamic_loss_scale:
            self._adjust_loss_scale(is_finite)
        add_local(self._iterations, 1)

    def _has_velocity(self, variable) -> bool:
        """Returns whether the update of a variable uses the average of the squared gradients."""
        return True

    def _clipping_scale(self, norm):
        """Returns the factor of all gradients that limits their global norm."""
        limit = self.max_gradient_norm
        one = tf.ones(())
        return limit * tf.minimum(one / norm, one / limit) if limit else one

    def _update(self, grads, variables, gain) -> None:
        """Updates the weights and the averages.

        A gain of 0 skips the update, because a `tf.cond` would add a third to the nodes of the
        graph and so to the time of the first step.

        Args:
            grads: The clipped gradients; 0 if the gain is 0.
            variables: The weights.
            gain: A float32 scalar, 1 or 0. With 0 all weights and averages keep their values.
        """
        # Computed once for all weights, because tracing time grows with the number of operations.
        rate = gain * self._get_current_learning_rate()
        dtypes = dict.fromkeys(variable.dtype for variable in variables)
        constants = {dtype: self._constants(tf.cast(gain, dtype)) for dtype in dtypes}
        for grad, variable in zip(grads, variables, strict=True):
            grad, layer_rate = tf.cast(grad, variable.dtype), self._layer_rate(rate, variable)
            self.update_step(grad, variable, layer_rate, **constants[variable.dtype])

    def _layer_rate(self, rate, variable):
        """Returns the learning rate of the layer of a variable, in the dtype of the variable."""
        factor = self._rate_factors[self._get_variable_index(variable)]
        return tf.cast(rate if factor == 1 else rate * factor, variable.dtype)

    def _store_norms(self, grads, variables):
        """Returns the global norm; stores it and the norm of each gradient in variables."""
        squares = 2 * tf.stack([tf.nn.l2_loss(tf.cast(grad, "float32")) for grad in grads])
        indices = [[self._get_variable_index(variable)] for variable in variables]
        norms = tf.scatter_nd(indices, tf.sqrt(squares), self.gradient_norms.shape)
        # The order of the sum in tf.add_n depends on which inputs other operations still read.
        norm = tf.sqrt(tf.reduce_sum(squares))
        assign_local(self.gradient_norms, norms)
        assign_local(self.gradient_norm, norm)
        return norm

    def _count_skipped(self, is_finite) -> None:
        is_counted = ~is_finite
        if self.dynamic_loss_scale:
            is_counted &= self.loss_scale.value <= 1
        add_local(self.skipped, is_counted)
        step = self._iterations.value
        assign_local(self.last_skipped, tf.where(is_counted, step, self.last_skipped.value))

    def _adjust_loss_scale(self, is_finite) -> None:
        steps = tf.where(is_finite, self._finite_steps.value + 1, 0)
        doubles = steps == _STEPS_TO_DOUBLE
        factor = tf.where(is_finite, tf.where(doubles, 2.0, 1.0), 0.5)
        assign_local(self.loss_scale, tf.maximum(self.loss_scale.value * factor, 1.0))
        assign_local(self._finite_steps, tf.where(doubles, 0, steps))

    def _state_of(self, variable):
        """Returns the momentum, velocity and weight decay rate of a variable."""
        index = self._get_variable_index(variable)
        return self._momentums[index], self._velocities[index], self._decay_rates[index]

    def _beta_powers(self, dtype):
        """Returns beta_1^t and beta_2^t at step t; 0 disables the bias correction."""
        if not self.bias_correction:
            return tf.zeros((), dtype), tf.zeros((), dtype)
        step = tf.cast(self.iterations.value + 1, dtype)
        return tf.cast(self.beta_1, dtype) ** step, tf.cast(self.beta_2, dtype) ** step

    def get_config(self):
        config = super().get_config()
        return {
            "learning_rate": config["learning_rate"],
            "name": config["name"],
            **{name: getattr(self, name) for name in _HYPERPARAMETERS},
        }


def is_exempt(path: str) -> bool:
    """Returns whether a weight has no weight decay.

    These are the weights `.../bias`, `.../output_bias`, `.../gamma` and `.../beta`.
    """
    return path.rsplit("/", 1)[-1].endswith(("bias", "gamma", "beta"))


def layer_rates(paths: Sequence[str], *, decay: float) -> list[float]:
    """Returns the factor of each weight's learning rate; see `BertOptimizer`.

    Each encoder of a model has its own number of layers.

    Args:
        paths: The paths of the weights.
        decay: The `layer_rate_decay`.
    """
    layers = list(map(encoder_layer, paths))
    tops = {encoder: layer + 1 for encoder, layer in sorted(filter(None, layers))}

    def rate(path, layer):
        if layer is not None:
            encoder, index = layer
            return decay ** (tops[encoder] - 1 - index)
        encoder, embeddings, _ = path.rpartition("embeddings/")
        return decay ** tops.get(encoder, 0) if embeddings else 1.0

    return list(map(rate, paths, layers))


def encoder_layer(path: str) -> tuple[str, int] | None:
    """Returns the path of the encoder and the index of the layer of a weight.

    The result is None for other weights. A block of an encoder is known by its sublayers, because
    an encoder may have any name, and a BiLSTM also has layers called "layer_0".
    """
    match = re.match(r"(|.*/)layer_(\d+)/(?:attention|feed_forward)(?:_norm)?/", path)
    return (match[1], int(match[2])) if match else None
