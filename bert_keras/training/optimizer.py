"""Gradients in, updated weights out: the AdamW that BERT was trained with."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(keras.optimizers.Optimizer):
    """AdamWeightDecayOptimizer of the original's optimization.py.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    No bias correction; biases and LayerNorm's gamma and beta are not decayed. Gradients are first
    scaled down together where their global norm is over `max_gradient_norm`; the norm before that
    is kept in `gradient_norm`, a float32 scalar variable, for whoever watches the training.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        max_gradient_norm: float = 1.0,
        name: str = "bert_adamw",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.max_gradient_norm = max_gradient_norm

    def build(self, var_list):
        if self.built:
            return
        super().build(var_list)
        self._momentums, self._velocities = self.add_optimizer_variables(
            var_list, ["momentum", "velocity"]
        )
        self._decay_rates = [
            0.0 if _is_exempt(variable.path) else self.weight_decay_rate for variable in var_list
        ]
        self.gradient_norm = self.add_variable((), dtype="float32", name="gradient_norm")

    def apply(self, grads, trainable_variables=None):
        if not self.built:
            with keras.name_scope(self.name):
                self.build(list(trainable_variables))
        variables = (
            self._trainable_variables if trainable_variables is None else trainable_variables
        )
        pairs = [(_dense(g, v), v) for g, v in zip(grads, variables, strict=True) if g is not None]
        squares = [ops.sum(ops.square(ops.cast(gradient, "float32"))) for gradient, _ in pairs]
        norm = ops.sqrt(ops.sum(ops.stack(squares)))
        self.gradient_norm.assign(norm)
        scale = self.max_gradient_norm / ops.maximum(norm, self.max_gradient_norm)
        super().apply([g * ops.cast(scale, g.dtype) for g, _ in pairs], [v for _, v in pairs])

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        momentum, velocity = self._momentums[index], self._velocities[index]
        rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        next_momentum = self.beta_1 * momentum + (1 - self.beta_1) * gradient
        next_velocity = self.beta_2 * velocity + (1 - self.beta_2) * ops.square(gradient)
        update = next_momentum / (ops.sqrt(next_velocity) + self.epsilon)
        if self._decay_rates[index]:
            update = update + self._decay_rates[index] * variable
        self.assign(momentum, next_momentum)
        self.assign(velocity, next_velocity)
        self.assign_sub(variable, rate * update)

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "max_gradient_norm": self.max_gradient_norm,
        }


def _dense(gradient, variable):
    """TensorFlow gives a looked-up table's gradient as rows, some many times over: add them up."""
    if not hasattr(gradient, "indices"):
        return gradient
    return ops.segment_sum(gradient.values, gradient.indices, num_segments=variable.shape[0])


def _is_exempt(path: str) -> bool:
    """Weights that are not decayed: `.../bias`, `.../output_bias`, `.../gamma`, `.../beta`."""
    return path.rsplit("/", 1)[-1].endswith(("bias", "gamma", "beta"))
