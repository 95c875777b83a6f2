"""A keras.Model with gradient accumulation, and compiled calls of a model without training."""

from collections.abc import Callable, Collection
from typing import Any

import keras
from keras import ops

from bert_keras.data.batches import copied_rows, fill_batch
from bert_keras.distribution import strategy
from bert_keras.distribution.loss import GlobalLoss, MicrobatchWeight, sum_over_replicas
from bert_keras.errors import InputError


class GlobalBatchModel(keras.Model):
    """A keras.Model whose `compile` also takes `gradient_accumulation_steps`.

    With more than one step, each replica splits its batch into this many parts and processes them
    one after the other. Only the activations of one part are in memory, and for a `GlobalLoss` the
    update is the same. Any other loss is the mean over the parts, as in Keras' optimizers.
    """

    gradient_accumulation_steps = 1

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        *,
        gradient_accumulation_steps: int = 1,
        **kwargs,
    ):
        """Configures the training; `keras.Model.compile` describes the other arguments.

        Args:
            optimizer: A BertAdamW scales the loss itself under the policy mixed_float16.
            gradient_accumulation_steps: The number of parts into which each replica splits its
                batch.
        """
        compares = [getattr(each, "needs_whole_batch", False) for each in keras.tree.flatten(loss)]
        if gradient_accumulation_steps < 1 or (gradient_accumulation_steps > 1 and any(compares)):
            raise InputError(
                f"gradient_accumulation_steps is {gradient_accumulation_steps}; expected 1, or more"
                " if the loss does not compare the rows of a batch"
            )
        if not isinstance(optimizer, str) and hasattr(optimizer, "dynamic_loss_scale"):
            optimizer.dynamic_loss_scale |= self.compute_dtype == "float16"
            kwargs["auto_scale_loss"] = False
        super().compile(optimizer, loss, loss_weights, **kwargs)
        self.gradient_accumulation_steps = gradient_accumulation_steps

    def get_compile_config(self):
        if config := super().get_compile_config():
            config["gradient_accumulation_steps"] = self.gradient_accumulation_steps
        return config

    def compile_from_config(self, config: dict):
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ):
        first = next(iter(_arrays(sample_weight)), None)
        is_part = first is None or isinstance(first, MicrobatchWeight)
        if keras.config.backend() == "jax" and not is_part:
            divisors = self._divisors(x, sample_weight)
            sample_weight = self._weights_of_part(sample_weight, divisors)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def test_step(self, *arguments):
        step, is_jax = super().test_step, keras.config.backend() == "jax"
        return self._without_copies(step, *arguments) if is_jax else step(*arguments)

    def train_step(self, *arguments):
        has_parts = self.gradient_accumulation_steps > 1
        if keras.config.backend() == "jax":
            step = self._step_in_parts if has_parts else super().train_step
            return self._without_copies(step, *arguments)
        if not has_parts:
            return super().train_step(*arguments)
        x, y, weight = keras.utils.unpack_x_y_sample_weight(*arguments)
        loss, gradients = self._accumulated_gradients(x, y, weight)
        self._loss_mean.update_state(sum_over_replicas(loss), sample_weight=_num_rows(x))
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.get_metrics_result()

    def _accumulated_gradients(self, x, y, weight):
        """Returns the loss and the gradients of this replica, summed over the parts."""
        import tensorflow as tf

        num_parts = self.gradient_accumulation_steps
        divisors = self._divisors(x, weight, num_parts=num_parts)

        def rows_of_part(tensor, part):
            """Returns 1 / `num_parts` of the rows, rounded up; the last part may have fewer."""
            size = -(-(tensor.shape[0] or tf.shape(tensor)[0]) // num_parts)
            if tensor.shape[0] is None or tensor.shape[0] % num_parts:
                return tensor[part * size : (part + 1) * size]
            return tf.reshape(tensor, (num_parts, size, *ops.shape(tensor)[1:]))[part]

        def part_gradients(part):
            x_, y_, weight_ = tf.nest.map_structure(
                lambda each: None if each is None else rows_of_part(each, part), (x, y, weight)
            )
            weights = self._weights_of_part(weight_, divisors)
            with tf.GradientTape() as tape:
                y_pred = self(x_, training=True)
                loss = self.compute_loss(x_, y_, y_pred, weights) / num_parts
                scaled = self.optimizer.scale_loss(loss)
            self.compute_metrics(x_, y_, y_pred, sample_weight=weight_)
            return loss, tape.gradient(scaled, self.trainable_variables)

        return _accumulate(part_gradients, num_parts, self.trainable_variables)

    def _step_in_parts(self, state, data):
        """Takes a step of JAX in `gradient_accumulation_steps` parts, one after the other."""
        import jax

        weights, others, optimizer, metrics = state
        num_parts, num_devices = self.gradient_accumulation_steps, strategy.num_devices()
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        if missing := -_num_rows(x) % (num_parts * num_devices):
            x, y, weight = fill_batch(data, _num_rows(x) + missing)
        divisors = self._divisors(x, weight, num_parts=num_parts)
        compute_gradients = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)

        def divide(array):
            """Returns [parts, rows, ...]; each device divides its own rows."""
            if array is None:
                return None
            rows = array.reshape((num_devices, num_parts, -1, *array.shape[1:]))
            return ops.swapaxes(rows, 0, 1).reshape((num_parts, -1, *array.shape[1:]))

        def add_part(carry, part):
            sums, others, metrics = carry
            x, y, weight = part
            weighted = x, y, self._weights_of_part(weight, divisors)
            (_, (loss, y_pred, others, metrics)), gradients = compute_gradients(
                *(weights, others, metrics, *weighted), training=True, optimizer_variables=optimizer
            )
            with self._metrics_scope(metrics) as scope:
                self._loss_mean.update_state(loss, sample_weight=_num_rows(x))
                self.compute_metrics(x, y, y_pred, weight)
            metrics = [scope.get_current_value(each) for each in self.metrics_variables]
            sums = [total + each / num_parts for total, each in zip(sums, gradients, strict=True)]
            return (sums, others, metrics), None

        start = [ops.zeros_like(each) for each in weights], others, metrics
        parts = keras.tree.map_structure(divide, (x, y, weight))
        (gradients, others, metrics), _ = jax.lax.scan(add_part, start, parts)
        weights, optimizer = self.optimizer.stateless_apply(optimizer, gradients, weights)
        return {}, (weights, others, optimizer, metrics)

    def _without_copies(self, step, state, data):
        """Takes a step of JAX and corrects the mean losses, in which Keras counts copied rows."""
        x, _, weight = keras.utils.unpack_x_y_sample_weight(data)
        _, (*others, values) = step(state, data)
        if _arrays(weight):
            share = _num_rows(x, weight) / _num_rows(x)
            means = [each for each in self.metrics if type(each) is keras.metrics.Mean]
            losses = [each for each in means if each.name.endswith("loss")]
            corrected = {id(variable) for metric in losses for variable in metric.variables}
            for index, variable in enumerate(self.metrics_variables):
                if id(variable) in corrected:
                    before = state[-1][index]
                    values[index] = before + share * (values[index] - before)
        with self._metrics_scope(values):
            return self.get_metrics_result(), (*others, values)

    @property
    def _loss_mean(self) -> keras.metrics.Mean:
        return next(metric for metric in self.metrics if metric.name == "loss")

    def _metrics_scope(self, values):
        pairs = zip(self.metrics_variables, values, strict=True)
        return keras.StatelessScope(state_mapping=list(pairs))

    def _weights_of_part(self, weight, divisors: dict):
        """Returns the weights of a part for `compute_loss`; see `_divisors`."""
        weights = {}
        for name, divisor in divisors.items():
            weights[name], is_copy = _entry(weight, name), None
            has_marks = keras.config.backend() == "jax" and weights[name] is not None
            if has_marks:
                is_copy = copied_rows(weights[name])
            if isinstance(_entry(self.loss, name), GlobalLoss):
                weights[name] = MicrobatchWeight(weights[name], divisor, is_copy)
            elif has_marks:  # without the sign, copies are not marked
                weights[name] = ops.abs(ops.cast(weights[name], "float32")) / divisor
        return weights.get(None, weights)

    def _divisors(self, x, weight, *, num_parts: int = 1) -> dict:
        """Returns the divisor of each output's loss by name, or by None if nothing is a dict.

        For other losses than a GlobalLoss it is the fraction of rows that Keras should count.
        """
        names = next((each for each in (self.loss, weight) if isinstance(each, dict)), (None,))
        num_rows = _num_rows(x, weight if keras.config.backend() == "jax" else None)
        divisors = {}
        for name in names:
            loss = _entry(self.loss, name)
            if isinstance(loss, GlobalLoss):
                # Cancels the division of the loss of a part by num_parts.
                divisors[name] = loss.divisor(num_rows, _entry(weight, name)) / num_parts
            else:
                divides = getattr(loss, "reduction", "") != "sum"
                divisors[name] = num_rows / _num_rows(x) if divides else 1.0
        return divisors

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds losses, metrics and optimizer with a batch of zeros before the first step."""
        # Replaces a private method of Keras 3.15, which reads a batch under a strategy of
        # tf.distribute. This changes the order of shuffled data, and fails with several workers. On
        # one device, Keras builds them in the first step, which is then traced twice.
        import tensorflow as tf

        def zeros(spec):
            spec = tf.nest.flatten(spec, expand_composites=True)[0]  # the spec of the first replica
            # Unknown sizes become 2. With 1, Keras would interpret "accuracy" as binary accuracy.
            return tf.zeros([size or 2 for size in spec.shape], spec.dtype)

        if iterator is not None:
            specs = iterator.data_adapter.get_tf_dataset().element_spec
            data_batch = tf.nest.map_structure(zeros, specs)
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def _accumulate(part_gradients, num_parts: int, variables):
    """Sums the losses and the gradients that `part_gradients(part)` returns over all parts."""
    import tensorflow as tf

    indices: list[int] = []  # of variables that have gradients; set when `add` is traced

    def add(part, loss, *sums):
        part_loss, addends = part_gradients(part)
        indices[:] = [index for index, each in enumerate(addends) if each is not None]
        sums = list(sums)
        # The identity operations keep the additions separate. Otherwise Grappler combines large
        # sums of three into temporary variables, which a loop creates twice
        # (tensorflow/tensorflow, issue 23780).
        for index in reversed(indices):  # in the order in which they are computed
            addend, part = tf.identity_n([tf.convert_to_tensor(addends[index]), part])
            sums[index] += addend
        return part + 1, loss + part_loss, *sums

    zeros = [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    _, loss, *sums = tf.while_loop(
        lambda part, *_: part < num_parts, add, (0, 0.0, *zeros), parallel_iterations=1
    )
    return loss, [sums[i] if i in indices else None for i in range(len(sums))]


def _entry(structure, name):
    return structure[name] if isinstance(structure, dict) else structure


def _num_rows(x, weight=None):
    """Returns the rows of inputs, without the copies that are marked in their weights."""
    arrays = _arrays(weight)
    if arrays:
        return ops.sum(ops.cast(~copied_rows(arrays[0]), "float32"))
    return ops.shape(keras.tree.flatten(x)[0])[0]


def _arrays(weight) -> list:
    return [each for each in keras.tree.flatten(weight) if each is not None]


def compile_call(call: Callable, model: keras.Model, *, names: Collection[str] = ()) -> Callable:
    """Compiles a function that calls a model without dropout and changes no weights.

    With TensorFlow, one trace serves batches of every size and length. JAX compiles each shape. The
    compiled function reads the current weights. `names` are the keys of its argument if this is a
    dict of int32 arrays [B, T].
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        spec = [dict.fromkeys(names, tf.TensorSpec((None, None), tf.int32))] if names else None
        options = {"input_signature": spec, "reduce_retracing": not names, "autograph": False}
        return tf.function(call, **options)
    import jax

    @jax.jit
    def stateless(weights, *batch):
        with keras.StatelessScope(state_mapping=zip(model.variables, weights, strict=True)):
            return call(*batch)

    return lambda *batch: stateless([weight.value for weight in model.variables], *batch)
