"""The parts of a distillation's loss and their gradients, against PyTorch's."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.training.losses import cosine_distance, soft_divergence

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
pytestmark = pytest.mark.extra


@pytest.fixture
def random_tensors():
    """Of teacher and student [3, 5, 40], and which of the rows count [3, 5]."""
    random = np.random.default_rng(0)
    arrays = random.normal(0, 3, (2, 3, 5, 40)).astype("float32")
    return *arrays, random.integers(0, 2, (3, 5)).astype("float32")


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
def test_soft_targets(random_tensors, temperature):
    def distance(teacher, student):
        logs = torch.log_softmax(student / temperature, -1)
        softened = torch.softmax(teacher / temperature, -1)
        return torch.nn.KLDivLoss(reduction="batchmean")(logs, softened) * temperature**2

    actual = ours(lambda *each: soft_divergence(*each, temperature=temperature), *random_tensors)
    for our_side, their_side in zip(actual, theirs(distance, *random_tensors), strict=True):
        np.testing.assert_allclose(our_side, their_side, rtol=1e-5, atol=1e-6)


def test_cosine(random_tensors):
    def distance(teacher, student):
        return torch.nn.CosineEmbeddingLoss()(student, teacher, torch.ones(len(student)))

    for pair in zip(
        ours(cosine_distance, *random_tensors), theirs(distance, *random_tensors), strict=True
    ):
        np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-6)
