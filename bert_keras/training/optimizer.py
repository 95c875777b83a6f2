"""Gradients in, updated weights out: the AdamW that BERT was trained with."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="bert_keras")
class BertAdamW(keras.optimizers.Optimizer):
    """AdamWeightDecayOptimizer of the original's optimization.py.

        m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
        w = w - rate (m / (sqrt(v) + epsilon) + decay w)

    Biases and LayerNorm's gamma and beta are not decayed. With `bias_correction`, at the t-th step,
    m / (1 - beta_1^t) and v / (1 - beta_2^t) stand for m and v, as in Adam's and AdamW's papers;
    without it the first steps are up to six times as long. Gradients are first scaled down together
    where their global norm is over `max_gradient_norm`; the norm before that is kept in
    `gradient_norm`, a float32 scalar variable, for whoever watches the training.
    """

    def __init__(
        self,
        learning_rate=1e-4,
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        bias_correction: bool = False,
        max_gradient_norm: float = 1.0,
        name: str = "bert_adamw",
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
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
        # A looked-up table's gradient comes as rows, some many times over: here they are added up.
        grads = [None if grad is None else tf.convert_to_tensor(grad) for grad in grads]
        grads, norm = tf.clip_by_global_norm(grads, self.max_gradient_norm)
        self.gradient_norm.assign(norm)
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        rate = tf.cast(learning_rate, variable.dtype)
        if self._decay_rates[index]:
            variable.assign_sub(rate * self._decay_rates[index] * variable)
        beta_1_power, beta_2_power = self._beta_powers(variable.dtype)
        # One pass over the weights: a third of the time of single ops. Powers of 0 leave
        # the bias correction out; 1 - beta_2 in float32 makes a step 6e-6 of itself longer.
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=beta_1_power,
            beta2_power=beta_2_power,
            lr=rate,
            beta1=tf.cast(self.beta_1, variable.dtype),
            beta2=tf.cast(self.beta_2, variable.dtype),
            epsilon=self.epsilon * tf.sqrt(1 - beta_2_power),  # it stands beside the corrected v
            grad=tf.cast(gradient, variable.dtype),
        )

    def _beta_powers(self, dtype):
        if not self.bias_correction:
            return tf.zeros((), dtype), tf.zeros((), dtype)
        step = tf.cast(self.iterations + 1, dtype)
        return tf.cast(self.beta_1, dtype) ** step, tf.cast(self.beta_2, dtype) ** step

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "bias_correction": self.bias_correction,
            "max_gradient_norm": self.max_gradient_norm,
        }


def _is_exempt(path: str) -> bool:
    """Weights that are not decayed: `.../bias`, `.../output_bias`, `.../gamma`, `.../beta`."""
    return path.rsplit("/", 1)[-1].endswith(("bias", "gamma", "beta"))
