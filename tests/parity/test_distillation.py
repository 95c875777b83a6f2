"""The parts of a distillation's loss and their gradients, against PyTorch's."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.training.losses import cosine_distance, soft_divergence

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytestmark = pytest.mark.extra


def ours(distance, teacher, student, counts):
    student = tf.constant(student)
    with tf.GradientTape() as tape:
        tape.watch(student)
        loss = tf.reduce_sum(distance(teacher, student) * counts) / counts.sum()
    return loss.numpy(), tape.gradient(loss, student).numpy()


def theirs(distance, teacher, student, counts):
    mask = torch.tensor(counts) > 0
    teacher, student = torch.tensor(teacher), torch.tensor(student, requires_grad=True)
    loss = distance(teacher[mask], student[mask])
    loss.backward()
    return loss.item(), student.grad.numpy()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_soft_targets_and_cosines(temperature):
    def divergence(teacher, student):
        logs = torch.log_softmax(student / temperature, -1)
        softened = torch.softmax(teacher / temperature, -1)
        return torch.nn.KLDivLoss(reduction="batchmean")(logs, softened) * temperature**2

    def cosine(teacher, student):
        return torch.nn.CosineEmbeddingLoss()(student, teacher, torch.ones(len(student)))

    random = np.random.default_rng(0)
    tensors = random.normal(0, 3, (2, 3, 5, 40)).astype("float32")
    tensors = (*tensors, random.integers(0, 2, (3, 5)).astype("float32"))
    soft = partial(soft_divergence, temperature=temperature)
    for one, other in ((soft, divergence), (cosine_distance, cosine)):
        for pair in zip(ours(one, *tensors), theirs(other, *tensors), strict=True):
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-6)
