"""Train and test steps whose mean covers the global batch, on all devices and over all parts."""

import keras
import tensorflow as tf

from bert_keras.distribution.parts import accumulated, outputs_of_parts, part_of
from bert_keras.distribution.reduction import SummedLoss, summed
from bert_keras.distribution.replicas import num_replicas, replica_id, sum_over_replicas
from bert_keras.distribution.terms import Term, check_losses, means_of, sum_of, total_weights
from bert_keras.errors import InputError
from bert_keras.layers.recomputation import seed_states

_SEED_STRIDE = 1024  # more than the random draws of any dropout in one part of a step


class GlobalBatchStep(keras.Model):
    """A keras.Model whose train and test steps take the mean over the global batch.

    Before the gradients of a part are computed, the weights of each loss (see `SummedLoss`) are
    added over all replicas and all parts of the batch. All predictions therefore count equally,
    even if replicas have different numbers of predictions or rows. The optimizer adds the gradients
    of all replicas.

    With `gradient_accumulation_steps` in `compile`, each replica splits its batch into that many
    parts and processes one after another. Only the activations of one part are in memory, and the
    update is the same. For a loss that needs the whole batch (see `SummedLoss`), each replica
    first computes the outputs of all parts, so that every part is computed twice.

    Dropout depends only on the layer's seed, the optimizer's step, the replica and the part.
    """

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        *,
        gradient_accumulation_steps: int = 1,
        **kwargs,
    ):
        """Configures the training.

        Under the policy mixed_float16 a BertOptimizer scales the loss dynamically.

        Args:
            optimizer: See `keras.Model.compile`.
            loss: See `keras.Model.compile`.
            loss_weights: See `keras.Model.compile`.
            gradient_accumulation_steps: The number of parts into which each replica splits its
                batch.
            **kwargs: Other arguments of `keras.Model.compile`.

        Raises:
            InputError: `gradient_accumulation_steps` is less than 1, `loss` or `loss_weights` is a
                list, `loss_weights` has a name that `loss` has not, or a `keras.distribution` is
                set.
        """
        if gradient_accumulation_steps < 1:
            raise InputError(
                f"gradient_accumulation_steps is {gradient_accumulation_steps}; expected at least 1"
            )
        check_losses(loss, loss_weights)
        if keras.distribution.distribution() is not None:
            raise InputError(
                "a keras.distribution has no effect under TensorFlow; call "
                "keras.distribution.set_distribution(None) and train in the scope of "
                'bert_keras.distribution.strategy.named_strategy("mirrored")'
            )
        if not isinstance(optimizer, str) and hasattr(optimizer, "dynamic_loss_scale"):
            scales = optimizer.dynamic_loss_scale or self.compute_dtype == "float16"
            optimizer.dynamic_loss_scale = scales
            kwargs["auto_scale_loss"] = False
        super().compile(optimizer, loss, loss_weights, **kwargs)
        self.__dict__["_loss_factors"] = {} if loss_weights is None else loss_weights
        metrics = tf.nest.flatten([kwargs.get("metrics"), kwargs.get("weighted_metrics")])
        objects = keras.metrics.Metric, type(None)
        self._has_metrics_by_name = not all(isinstance(each, objects) for each in metrics)
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self._compile_loss = None  # train_step and test_step compute the loss instead
        names = self.loss if isinstance(self.loss, dict) and len(self.loss) > 1 else ()
        trackers = [keras.metrics.Mean(name=f"{name}_loss") for name in names]
        self.__dict__["_loss_trackers"] = trackers  # not tracked by Keras

    def get_compile_config(self):
        config = super().get_compile_config()
        parts = {"gradient_accumulation_steps": self.gradient_accumulation_steps} if config else {}
        return config | parts

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self):
        return [*super().metrics, *self.__dict__.get("_loss_trackers", ())]

    def train_step(self, data):
        # At the end of the data the step must fail before it counts a step or decays a weight.
        with tf.control_dependencies(_tensors(data)):
            return self._train_step(data)

    def test_step(self, data):
        with tf.control_dependencies(_tensors(data)):
            return self._test_step(data)

    def _unpacked(self, data):
        """Returns inputs, targets and sample weights; zeros as targets that no loss reads."""
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        if y is None and self.loss is not None:
            if getattr(self.loss, "reads_targets", True):
                name = type(self.loss).__name__ if isinstance(self.loss, SummedLoss) else "the loss"
                raise InputError(f"{name} reads targets, and the data has none")
            y = tf.zeros([_num_rows(x)])
        return x, y, weight

    def _train_step(self, data):
        _refuse_clipping_by_replica(self.optimizer)
        x, y, weight = self._unpacked(data)
        terms, rows = self._terms(y), _num_rows(x)
        if not terms:
            raise InputError("compile received no loss; expected one for at least one output")
        needs_whole_batch = any(term.loss.needs_whole_batch for term in terms)
        if needs_whole_batch and self.gradient_accumulation_steps > 1:
            means, gradients = self._cached_gradients(terms, x, y, weight)
        else:
            means, gradients = self._gradients(terms, x, y, weight)
        self._track_losses(terms, means, rows)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._logs()

    def _gradients(self, terms, x, y, weight):
        """Returns this replica's means and gradients; each part computes its own losses."""
        totals = total_weights(terms, y, weight)
        num_parts = self.gradient_accumulation_steps

        def part_gradients(part):
            x_, y_, weight_ = part_of((x, y, weight), part, num_parts)
            with tf.GradientTape() as tape:
                y_pred = self._outputs(x_, part)
                means = means_of(terms, y_, y_pred, weight_, totals)
                scaled = self.optimizer.scale_loss(sum_of(terms, means))
            self.compute_metrics(x_, y_, y_pred, sample_weight=weight_)
            return tf.stack(means), self._dense_gradients(tape, scaled)

        means, gradients = part_gradients(0)
        if num_parts > 1:
            means, gradients = accumulated(part_gradients, num_parts, means, gradients)
        return means, gradients

    def _cached_gradients(self, terms, x, y, weight):
        """Same as `_gradients`, for losses that need the outputs of all parts.

        Computes the outputs of all parts, then the gradients of the losses with respect to these
        outputs, then each part again, with the same dropout, for the gradients of the weights.
        Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
        Setup", section 3.
        """
        num_parts = self.gradient_accumulation_steps

        def part_outputs(part):
            return self._outputs(part_of(x, part, num_parts), part)

        y_pred = outputs_of_parts(part_outputs, num_parts, _num_rows(x))
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            means = means_of(terms, y, y_pred, weight, total_weights(terms, y, weight))
            scaled = self.optimizer.scale_loss(sum_of(terms, means))
        upstream = tape.gradient(scaled, y_pred, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        self.compute_metrics(x, y, y_pred, sample_weight=weight)

        def part_gradients(part):
            with tf.GradientTape() as tape:
                outputs = part_outputs(part)
            gradients = self._dense_gradients(tape, outputs, part_of(upstream, part, num_parts))
            return tf.zeros_like(means), gradients

        _, gradients = part_gradients(0)
        return accumulated(part_gradients, num_parts, tf.stack(means), gradients)

    def _outputs(self, x, part):
        """Returns the outputs for the inputs of a part, with the dropout of the part."""
        with keras.StatelessScope(self._seeds(part), collect_losses=True):
            y_pred = self(x, training=True)
            if self.losses:
                raise InputError(
                    "the model has losses of add_loss or of regularizers, which this train step "
                    "does not add; expected all losses in compile"
                )
        return y_pred

    def _dense_gradients(self, tape, target, upstream=None) -> list:
        gradients = tape.gradient(target, self.trainable_variables, output_gradients=upstream)
        return [each if each is None else tf.convert_to_tensor(each) for each in gradients]

    def _test_step(self, data):
        x, y, weight = self._unpacked(data)
        terms, rows = self._terms(y), _num_rows(x)
        y_pred = self(x, training=False)
        means = means_of(terms, y, y_pred, weight, total_weights(terms, y, weight))
        self._track_losses(terms, tf.stack(means), rows)
        self.compute_metrics(x, y, y_pred, sample_weight=weight)
        return self._logs()

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Returns the weighted sum of the losses of all outputs.

        In a replica context the result is this replica's part of the mean over the global batch.
        """
        terms = self._terms(y)
        totals = total_weights(terms, y, sample_weight)
        return sum_of(terms, means_of(terms, y, y_pred, sample_weight, totals))

    def _terms(self, y) -> list[Term]:
        if isinstance(self.loss, dict):
            losses = self.loss
        else:  # one loss for every output
            losses = dict.fromkeys(y if isinstance(y, dict) else [None], self.loss)
        factors = self._loss_factors
        return [
            Term(name, summed(loss), factors.get(name, 1) if isinstance(factors, dict) else factors)
            for name, loss in losses.items()
            if loss is not None
        ]

    def _seeds(self, part):
        """Returns the seed state of every dropout for this step, replica and part."""
        step = tf.cast(self.optimizer.iterations.value, "int64")
        part = step * self.gradient_accumulation_steps + tf.cast(part, "int64")
        offset = tf.stack([tf.cast(replica_id(), "int64"), part * _SEED_STRIDE])
        return [(state, state.value + tf.cast(offset, state.dtype)) for state in seed_states(self)]

    def _track_losses(self, terms, means, rows):
        """Updates the loss metrics of every replica with the losses of the global batch.

        The weights of all replicas add up to the number of rows of the global batch.
        """
        means, rows = sum_over_replicas([means, tf.cast(rows, "float32")])
        weight = rows / num_replicas()
        means = tf.unstack(means)
        self._loss_tracker.update_state(sum_of(terms, means), sample_weight=weight)
        for tracker, mean in zip(self._loss_trackers, means, strict=False):
            tracker.update_state(mean, sample_weight=weight)

    def _logs(self):
        logs = self.get_metrics_result()
        if not isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return logs
        # Keras reduces the logs of several workers along an axis, so each value needs one.
        return {name: tf.reshape(value, (1,)) for name, value in logs.items()}

    def make_train_function(self, force=False):
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Builds metrics before the first step, only where that is necessary.

        Replaces a private Keras method with two problems. Under a strategy it builds with a batch
        that it computes as a mean over replicas, in which integer ids become fractions, and it
        reads this batch from the data, which changes the order of shuffled data. On one device it
        leaves metrics that are given by name to be created inside the first step. XLA does not
        support this, and without XLA the step is traced a second time, which takes a fifth more
        memory and doubles the time of the first step.
        """
        if self._distribute_strategy is None and not self._has_metrics_by_name:
            return
        if iterator is not None and data_batch is None:
            spec = iterator.data_adapter.get_tf_dataset().element_spec
            data_batch = tf.nest.map_structure(_zeros, spec)
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=data_batch)


def _zeros(spec):
    spec = getattr(spec, "_value_specs", (spec,))[0]  # the spec of the first replica
    # Unknown sizes become 2. With size 1 Keras would take "accuracy" for binary accuracy.
    return tf.zeros([size or 2 for size in spec.shape], spec.dtype)


def _tensors(structure) -> list:
    return [each for each in tf.nest.flatten(structure) if each is not None]


def _num_rows(structure):
    return tf.shape(_tensors(structure)[0])[0]


def _refuse_clipping_by_replica(optimizer) -> None:
    if num_replicas() == 1 or hasattr(optimizer, "dynamic_loss_scale"):
        return
    options = ("clipnorm", "global_clipnorm", "clipvalue", "dynamic_scale")
    if any(getattr(optimizer, name, None) for name in options):
        raise InputError(
            f"{type(optimizer).__name__} clips and scales the gradients of each replica "
            "separately; on several devices use bert_keras.training.optimizer.BertAdamW"
        )
