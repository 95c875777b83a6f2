"""Trains a student model on the predictions of a teacher model.

Sources: Hinton et al. 2015, "Distilling the Knowledge in a Neural Network"; Sanh et al. 2019,
"DistilBERT", section 3.
"""

from typing import Any

import keras
from keras import ops

from bert_keras.data.batches import copied_rows
from bert_keras.distribution.loss import GlobalLoss, GlobalMean, global_loss
from bert_keras.distribution.model import GlobalBatchModel
from bert_keras.errors import InputError
from bert_keras.layers import Tensor
from bert_keras.models.pretrained import named_inputs
from bert_keras.models.task_models import TaskModel
from bert_keras.training.losses import MaskedLMLoss, cosine_distance, soft_divergence

LABELS, SOFT, COSINE = "labels", "soft", "cosine"
CLASS_LOSSES = (
    MaskedLMLoss,
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
)


class Distiller(GlobalBatchModel):
    """A Keras model that trains a student on labels and on the predictions of a teacher.

    Compile and fit it instead of the student, whose weights it shares. The teacher runs without
    dropout and does not change. The loss is the sum over the outputs of

        alpha_labels x loss of the labels + alpha_soft x divergence from the teacher

    plus `alpha_cosine` x the mean over all tokens except padding of 1 - the cosine between the last
    hidden states of both models. The divergence of class logits is the KL divergence at
    `temperature`, multiplied by `temperature` squared. For independent labels it is the mean of
    this divergence over the labels, and for numbers it is the loss itself. The logs contain every
    term: `masked_lm_loss`, `masked_lm_soft_loss`, `cosine_loss`, or `labels_loss` and `soft_loss`
    for a model with one output.

    Args:
        student: The model to train.
        teacher: A model with the same outputs.
        temperature: Divides the logits of both models.
        alpha_soft: Weight of the divergence.
        alpha_labels: Weight of the loss of the labels.
        alpha_cosine: Weight of the cosine loss; above 0 it needs equal hidden sizes.

    Example:

    ```python
    student, teacher = (BertClassifier.from_pretrained("films") for _ in range(2))
    distiller = Distiller(student, teacher, temperature=2.0)
    ```
    """

    def __init__(
        self,
        student: TaskModel,
        teacher: TaskModel,
        *,
        temperature: float = 2.0,
        alpha_soft: float = 0.5,
        alpha_labels: float = 0.5,
        alpha_cosine: float = 0.0,
    ):
        # Public weight names omit the model's name, so the student and the Distiller share them.
        super().__init__(name=student.name, dtype=student.dtype_policy)
        heads = list(student.kind.heads)
        theirs = [each for each in teacher.kind.heads if each in heads]
        pairs: dict[str, Any] = {"heads": (sorted(heads), sorted(theirs))}
        pairs["num_labels"] = (getattr(student, "num_labels", 0), getattr(teacher, "num_labels", 0))
        if "masked_lm" in heads:
            pairs["vocab_size"] = (student.config.vocab_size, teacher.config.vocab_size)
        if alpha_cosine > 0:
            pairs["hidden_size"] = (student.config.hidden_size, teacher.config.hidden_size)
        for name, (ours, expected) in pairs.items():
            if ours != expected:
                raise InputError(f"{name}: the student has {ours}, the teacher {expected}")
        self.student, self.config = student, student.config
        self.__dict__["teacher"] = teacher  # Keras must not track, train or save it
        self.temperature = temperature
        self.alpha_soft, self.alpha_labels = alpha_soft, alpha_labels
        self.alpha_cosine = alpha_cosine
        self.built = True

    @property
    def non_trainable_variables(self):
        """The student's variables and, with JAX, the teacher's, so that these are not constants."""
        ours, is_jax = super().non_trainable_variables, keras.config.backend() == "jax"
        return [*ours, *self.teacher.variables] if is_jax else ours

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, **kwargs
    ):
        """Configures the training as the student's `compile`; `loss` is the loss of the labels."""
        self._has_names = isinstance(loss, dict)
        losses = loss if isinstance(loss, dict) else {LABELS: loss}
        if not isinstance(loss_weights, dict):
            loss_weights = dict.fromkeys(losses, 1.0 if loss_weights is None else loss_weights)
        terms, factors, self.__dict__["_distances"] = {}, {}, {}
        for name, label_loss in losses.items():
            self._distances[name] = self._make_distance(label_loss)
            term, soft_name = global_loss(label_loss), self._soft_name(name)
            terms |= {name: term, soft_name: _ComputedLoss(term)}
            factor = loss_weights.get(name, 1.0)
            factors |= {name: self.alpha_labels * factor, soft_name: self.alpha_soft * factor}
        if self.alpha_cosine:
            terms[COSINE], factors[COSINE] = _ComputedLoss(), self.alpha_cosine
        super().compile(optimizer, terms, factors, **kwargs)

    def _soft_name(self, name: str) -> str:
        return f"{name}_{SOFT}" if self._has_names else SOFT

    def _make_distance(self, loss):
        """Returns a function that computes the divergence of a teacher's and a student's output."""
        loss = loss.loss if isinstance(loss, GlobalMean) else loss
        if isinstance(loss, CLASS_LOSSES):
            return lambda *outputs: soft_divergence(*outputs, temperature=self.temperature)
        if isinstance(loss, keras.losses.BinaryCrossentropy):

            def distance(*outputs):
                # A sigmoid equals the softmax of two classes with its logit and the logit 0.
                pairs = (ops.stack([each, ops.zeros_like(each)], axis=-1) for each in outputs)
                return ops.mean(soft_divergence(*pairs, temperature=self.temperature), axis=-1)

            return distance
        if isinstance(loss, keras.losses.MeanSquaredError):
            return loss.call
        raise InputError(f"the loss is {loss!r}, for which no divergence from a teacher is known")

    def call(self, inputs: dict, training: bool = False):
        """Returns the student's outputs, and the divergence of each of their elements."""
        students, student_states = self._named_outputs(self.student, inputs, training=training)
        teachers, teacher_states = keras.tree.map_structure(
            ops.stop_gradient, self._named_outputs(self.teacher, inputs, training=False)
        )
        outputs = dict(students)
        for name, distance in self._distances.items():
            outputs[self._soft_name(name)] = distance(teachers[name], students[name])
        if self.alpha_cosine:
            outputs[COSINE] = cosine_distance(teacher_states, student_states)
        return outputs

    def _named_outputs(self, model, inputs, *, training):
        """Returns a model's outputs by name, and its last hidden states if they are compared."""
        if not self.alpha_cosine:
            outputs, states = model(inputs, training=training), ()
        else:
            encoded = model.encoder(inputs, training=training)
            outputs = model.logits(encoded, inputs, training=training)
            states = encoded["sequence_output"]
        return outputs if isinstance(outputs, dict) else {LABELS: outputs}, states

    def train_step(self, *arguments):
        *state, data = arguments
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        return super().train_step(*state, (x, *self._expand(x, y, weight)))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Tensor = None,
        sample_weight: Tensor = None,
        training: bool = True,
    ):
        y, sample_weight = self._expand(x, y, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Tensor, sample_weight: Tensor = None):
        return super().compute_metrics(x, *map(self._student_part, (y, y_pred, sample_weight)))

    def _expand(self, x, y, weight):
        """Returns targets and weights of every term; the cosine's are the input mask."""
        if isinstance(y, dict) and set(map(self._soft_name, self._distances)) <= y.keys():
            return y, weight
        y, weight = map(self._by_name, (y, weight))
        for name in self._distances:
            y[self._soft_name(name)], weight[self._soft_name(name)] = y[name], weight[name]
        if self.alpha_cosine:
            mask_BT, first = named_inputs(x)["input_mask"], next(iter(weight.values()))
            if keras.config.backend() == "jax" and first is not None:
                is_copy_B1 = copied_rows(first)[:, None]
                mask_BT = ops.where(is_copy_B1, -0.0, ops.cast(mask_BT, "float32"))
            y[COSINE] = weight[COSINE] = mask_BT
        return y, weight

    def _by_name(self, structure) -> dict:
        is_dict = isinstance(structure, dict)
        return {name: structure[name] if is_dict else structure for name in self._distances}

    def _student_part(self, structure):
        """Returns the student's part of targets, outputs or weights, in the student's form."""
        if not isinstance(structure, dict):
            return structure
        named = self._by_name(structure)
        if all(each is None for each in named.values()):
            return None
        return named if self._has_names else named[LABELS]


class _ComputedLoss(GlobalLoss):
    """Takes the model's outputs as the losses of elements, with the divisor of the loss `like`."""

    def __init__(self, like: GlobalLoss | None = None):
        super().__init__(reduction="mean_with_sample_weight" if like is None else like.reduction)
        self.epsilon = 0.0 if like is None else like.epsilon

    def call(self, y_true, y_pred):
        return y_pred
