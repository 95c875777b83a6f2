"""What TensorBoard shows besides losses, and the number of operations of a step."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.runs.pretrain import flops_per_example
from bert_keras.training import callbacks, tensorboard
from bert_keras.training.callbacks import TensorBoardLog
from bert_keras.training.loop import fit_resumable
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW
from tests.distribution.test_global_batch import mirrored
from tests.distribution.training import batches as pretraining_batches
from tests.factories import batches_of, tiny_config
from tests.training.test_loop import settings

CONFIG = tiny_config(vocab_size=50, hidden_size=8, intermediate_size=24)


@pytest.mark.slow
def test_points_have_norms_and_speed(tmp_path):
    flops = flops_per_example(CONFIG, 6, 2)
    with mirrored(2).scope():
        model = BertPretrainer(CONFIG)
        losses, metrics = pretraining_losses(), pretraining_metrics()
        model.compile(BertAdamW(0.01), loss=losses, weighted_metrics=metrics)
        changes = {"num_steps": 10, "steps_per_epoch": 2, "flops_per_example": flops}
        rows = next(pretraining_batches(size=64, length=6, predictions=2))
        batches = partial(batches_of, rows, size=8, is_endless=True)
        board = [tensorboard.NormsByLayer()]
        fit_resumable(model, batches, settings(tmp_path, **changes), board=board)
    train = tensorboard.read_curves(tmp_path / "logs")["train"]
    for tag in ("gradient_norm/layer_01", "weight_norm/embeddings", "gradient_norm/heads"):
        assert [step for step, _ in train[tag]] == [2, 4, 6, 8, 10], tag
        assert all(norm > 0 for _, norm in train[tag]), tag
    parts = [train[tag] for tag in train if tag.startswith("gradient_norm/")]
    norms, total_norms = np.array(parts)[..., 1], np.array(train["optimizer/gradient_norm"])[:, 1]
    np.testing.assert_allclose(np.linalg.norm(norms, axis=0), total_norms, rtol=1e-5)
    weights = [weight for weight in model.trainable_variables if "/layer_1/" in weight.path]
    norm = np.linalg.norm([np.linalg.norm(weight.numpy()) for weight in weights])
    assert train["weight_norm/layer_01"][-1][1] == pytest.approx(norm, rel=1e-5)
    examples = dict(train["speed/examples_per_second"])
    for step, rate in train["speed/model_flops_per_second"]:
        assert rate == pytest.approx(examples[step] * flops, rel=1e-5)


@pytest.mark.parametrize("Model", [BertPretrainer, BertMaskedLM])
@pytest.mark.parametrize("changes", [{}, {"embedding_size": 6, "shares_layers": True}], ids=str)
def test_operations_equal_the_matrix_products_of_the_gradient_graph(Model, changes):
    config = dataclasses.replace(CONFIG, has_pooler=Model is BertPretrainer, **changes)
    model, rows = Model(config), 4
    x = {name: tf.ones((rows, 10), "int32") for name in ("input_ids", "input_mask", "segment_ids")}
    x["masked_lm_positions"] = tf.ones((rows, 3), "int32")

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.square(y)) for y in model(x).values()])
        return [g for g in tape.gradient(loss, model.trainable_variables) if g is not None]

    graph = gradients.get_concrete_function().graph
    assert sum(map(flops_of, graph.get_operations())) == rows * flops_per_example(config, 10, 3)


def flops_of(operation: tf.Operation) -> int:
    if operation.type not in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        return 0
    adjoint = "transpose_a" if operation.type == "MatMul" else "adj_x"
    inner = operation.inputs[0].shape[-2 if operation.get_attr(adjoint) else -1]
    return 2 * inner * operation.outputs[0].shape.num_elements()


def test_the_speed_excludes_the_first_step(tmp_path, monkeypatch):
    times = iter([100.0, 1.0, 1.5])
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: next(times))
    model = BertPretrainer(CONFIG)
    model.compile(BertAdamW(1e-3))
    model.optimizer.build(model.trainable_variables)
    changes = {"steps_per_epoch": 3, "batch_size": 10, "flops_per_example": 10_000}
    log = TensorBoardLog(settings(tmp_path, **changes))
    log.set_model(model)
    log.set_params({"steps": 3})
    for epoch, num_steps in enumerate((1, 3)):
        model.optimizer.iterations.assign(epoch)
        log.on_epoch_begin(epoch)
        for step in range(num_steps):
            log.on_train_batch_end(step)
        log.on_epoch_end(epoch)
    train = tensorboard.read_curves(tmp_path / "logs")["train"]
    assert dict(train["speed/model_flops_per_second"]) == pytest.approx({1: 4e5})
    assert [step for step, _ in train["optimizer/learning_rate"]] == [0, 1]
