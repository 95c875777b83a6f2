"""Operations without a seed are refused on CPUs unless the environment allows them; sums have a
fixed order."""

import subprocess
import sys

import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import OPTIMIZERS
from tests.distribution.training import CONFIG, batches

DRAWS = """
import tensorflow as tf
from bert_keras.distribution.numerics import add_in_one_order
add_in_one_order()
tf.random.normal([1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "is_refused"), [(None, True), ("0", False)])
def test_the_environment_decides_about_determinism(monkeypatch, choice, is_refused):
    monkeypatch.delenv("TF_DETERMINISTIC_OPS", raising=False)
    if choice:
        monkeypatch.setenv("TF_DETERMINISTIC_OPS", choice)
    done = subprocess.run([sys.executable, "-c", DRAWS], stderr=subprocess.PIPE, text=True)
    assert ("determinism is enabled" in done.stderr) == is_refused == bool(done.returncode)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sums_of_the_step_do_not_depend_on_the_order_of_readers(optimizer):
    """AddN starts with the first input whose buffer no other operation reads.

    If this is one of the first two inputs, the sum does not depend on the timing.
    """
    model = BertPretrainer(BertConfig(**CONFIG))
    model.compile(
        OPTIMIZERS[optimizer](1e-3),
        loss=pretraining_losses(),
        weighted_metrics=pretraining_metrics(),
    )
    model.optimizer.build(model.trainable_variables)
    batch = tf.nest.map_structure(tf.constant, next(batches()))
    step = tf.function(model.train_step, autograph=False).get_concrete_function(batch)
    sums = [op for op in step.graph.get_operations() if op.type == "AddN" and len(op.inputs) > 2]
    assert sums  # such as the gradients of queries, keys and values for their input
    for op in sums:
        assert any(each.consumers() == [op] for each in op.inputs[:2]), op.name
