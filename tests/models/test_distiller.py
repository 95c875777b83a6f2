"""Distillation: the loss, the weights that change, several devices."""

import dataclasses

import keras
import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

from bert_keras import BertClassifier, BertMaskedLM, BertPretrainer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.distiller import Distiller
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW
from tests.distribution.training import CONFIG, batches, data
from tests.tensorflow_or_skip import tf

STUDENT = BertConfig(**{**CONFIG, "num_layers": 1})
# If the dropout were active, two calls would have different outputs.
TEACHER = dataclasses.replace(
    STUDENT, num_layers=2, hidden_dropout_rate=0.5, attention_dropout_rate=0.5
)
ALPHAS = {"temperature": 3.0, "alpha_soft": 5.0, "alpha_labels": 2.0, "alpha_cosine": 1.5}


def divergence(teacher, student, temperature):
    p, q = (softmax(np.asarray(each, "float64") / temperature, -1) for each in (teacher, student))
    return temperature**2 * rel_entr(p, q).sum(-1)


def pair(Model, **changes):
    keras.utils.set_random_seed(1)
    return Model(STUDENT, **changes), Model(TEACHER, **changes)


def test_the_loss_is_the_sum_of_its_parts():
    student, teacher = pair(BertPretrainer)
    distiller = Distiller(student, teacher, **ALPHAS)
    distiller.compile(loss=pretraining_losses())
    x, y, weight = next(batches())
    loss = distiller.compute_loss(x, y, distiller(x), weight)
    ours, theirs = student(x), teacher(x)
    total = 0.0
    for name, divisor in (("masked_lm", weight["masked_lm"].sum() + 1e-5), ("next_sentence", 16)):
        log_p = log_softmax(np.asarray(ours[name], "float64"), -1)
        labels = -np.take_along_axis(log_p, y[name][..., None], -1)[..., 0]
        soft = divergence(theirs[name], ours[name], 3.0)
        total += ((2.0 * labels + 5.0 * soft) * weight[name]).sum() / divisor
    a, b = (np.asarray(m.encoder(x)["sequence_output"], "float64") for m in (teacher, student))
    cosine = (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)
    total += 1.5 * (1 - cosine)[x["input_mask"] > 0].mean()
    assert float(loss) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            lambda teacher, student: divergence(teacher, student, 2.0),
        ),
        (
            keras.losses.BinaryCrossentropy(from_logits=True),
            lambda *logits: divergence(
                *(np.stack([each, 0 * each], -1) for each in logits), 2.0
            ).mean(-1),
        ),
        (keras.losses.MeanSquaredError(), lambda *outputs: np.square(np.diff(outputs, axis=0)[0])),
    ],
)
def test_the_divergence_of_classes_of_independent_labels_and_of_numbers(loss, expected):
    student, teacher = pair(BertClassifier, num_labels=3)
    distiller = Distiller(student, teacher)
    distiller.compile(loss=loss)
    x, *_ = next(batches())
    outputs = {name: np.asarray(each) for name, each in distiller(x).items()}
    assert outputs.keys() == {"labels", "soft"}
    np.testing.assert_array_equal(outputs["labels"], student(x))
    wanted = expected(np.asarray(teacher(x)), np.asarray(student(x)))
    if wanted.ndim == 2:
        wanted = wanted.mean(-1)
    # The terms of the divergence have the size of log p, below 4, and cancel: float32 rounds each
    # by up to 2.4e-7, and the divergence multiplies them by temperature^2 = 4.
    np.testing.assert_allclose(outputs["soft"], wanted, rtol=1e-6, atol=4e-6)


def test_only_the_student_has_gradients():
    distiller = Distiller(*pair(BertMaskedLM), **ALPHAS)
    distiller.compile(loss=pretraining_losses(["masked_lm"]))
    x, y, weight = next(batches())
    with tf.GradientTape(persistent=True) as tape:
        loss = distiller.compute_loss(x, y, distiller(x, training=True), weight)
    student, teacher = distiller.student, distiller.teacher
    assert not any(tape.gradient(loss, [w.value for w in teacher.trainable_variables]))
    assert [w.path for w in distiller.weights] == [w.path for w in student.weights]
    gradients = tape.gradient(loss, [w.value for w in student.trainable_variables])
    assert all(each is not None for each in gradients)


def fitted(strategy, **compiling):
    with strategy.scope():
        distiller = Distiller(*pair(BertMaskedLM), **ALPHAS)
        losses, metrics = pretraining_losses(["masked_lm"]), pretraining_metrics(["masked_lm"])
        distiller.compile(BertAdamW(2e-4), loss=losses, weighted_metrics=metrics, **compiling)
    before = distiller.teacher.get_weights()
    history = distiller.fit(data(), epochs=1, shuffle=False, verbose=0).history
    for weight_before, weight in zip(before, distiller.teacher.get_weights(), strict=True):
        np.testing.assert_array_equal(weight_before, weight)
    weights = {weight.path: weight.numpy() for weight in distiller.student.trainable_variables}
    return weights, {name: values[0] for name, values in history.items()}


@pytest.mark.slow
def test_devices_and_parts_change_nothing():
    from tests.distribution.test_global_batch import assert_same, mirrored  # needs TensorFlow

    alone = fitted(tf.distribute.get_strategy())
    assert alone[1].keys() == {
        *("loss", "masked_lm_loss", "masked_lm_soft_loss", "cosine_loss", "masked_lm_accuracy")
    }
    assert_same(fitted(mirrored(2), gradient_accumulation_steps=2), alone)


@pytest.mark.slow
def test_a_student_with_one_output_keeps_its_metrics():
    distiller = Distiller(*pair(BertClassifier, num_labels=2), alpha_soft=1.0, alpha_labels=0.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    distiller.compile(BertAdamW(3e-3), loss=loss, metrics=["accuracy"])
    x, *_ = next(batches())
    labels = 1 - np.asarray(distiller.teacher(x)).argmax(-1)  # the teacher knows better
    table = tf.data.Dataset.from_tensors((x, labels)).repeat(40)
    history = distiller.fit(table, shuffle=False, verbose=0).history
    assert history.keys() == {"loss", "labels_loss", "soft_loss", "accuracy"}
    scores = distiller.evaluate(table.take(1), verbose=0, return_dict=True)
    assert scores["soft_loss"] < 0.1 * history["soft_loss"][0] and scores["accuracy"] < 0.2


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_the_parts_of_the_loss_are_computed_in_float32(policy):
    x, *_ = next(batches())
    whole = Distiller(*pair(BertMaskedLM), **ALPHAS)
    short = Distiller(*pair(BertMaskedLM, dtype=policy), **ALPHAS)
    for distiller in (whole, short):
        distiller.compile(BertAdamW(1e-3), loss=pretraining_losses(["masked_lm"]))
    assert short.optimizer.dynamic_loss_scale == (policy == "mixed_float16")
    outputs, expected = short(x), whole(x)
    for name in ("masked_lm_soft", "cosine"):
        assert keras.backend.standardize_dtype(outputs[name].dtype) == "float32"
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0.05, atol=0.05)


def test_incompatible_models_are_refused():
    words, pretrainer = BertMaskedLM(STUDENT), BertPretrainer(STUDENT)
    other, wide = (
        BertMaskedLM(dataclasses.replace(STUDENT, **changes))
        for changes in ({"vocab_size": 60}, {"hidden_size": 24})
    )
    three, two = (BertClassifier(STUDENT, num_labels=count) for count in (3, 2))
    pairs = (pretrainer, words, 0.0), (words, other, 0.0), (words, wide, 1.0), (three, two, 0.0)
    for student, teacher, alpha_cosine in pairs:
        with pytest.raises(InputError):
            Distiller(student, teacher, alpha_cosine=alpha_cosine)
    distiller = Distiller(words, pretrainer)
    with pytest.raises(InputError):
        distiller.compile(loss="mae")
