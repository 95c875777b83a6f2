"""The operations of a training example."""

import dataclasses

import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.training.tensorboard.flops import flops_per_example

CONFIG = BertConfig(
    vocab_size=50, hidden_size=8, num_layers=2, num_heads=2, intermediate_size=24, max_positions=16
)


def test_the_operations_counted_by_hand():
    """T = 10, D = 8, F = 24, V = 50, P = 3."""
    layer = 2 * 10 * 8 * 8 * 4  # query, key, value, output
    layer += 2 * 10 * 8 * 24 * 2  # there and back
    layer += 2 * 10 * 10 * 8 * 2  # scores and context, of both heads together
    pooler_and_next_sentence = 2 * 8 * 8 + 2 * 8 * 2
    masked_lm = 2 * 3 * 8 * 8 + 2 * 3 * 8 * 50
    forward = 2 * layer + pooler_and_next_sentence + masked_lm
    assert flops_per_example(CONFIG, 10, 3) == 3 * forward


def test_of_bert_base_6_operations_a_weight_and_token_and_the_attention():
    config = BertConfig()
    blocks = 12 * 12 * 768**2
    flops = flops_per_example(config, 128, 0)
    assert flops == pytest.approx(6 * blocks * 128 + 12 * 12 * 768 * 128**2, rel=1e-4)


@pytest.mark.parametrize("Model", [BertPretrainer, BertMaskedLM])
@pytest.mark.parametrize("changes", [{}, {"embedding_size": 6, "shares_layers": True}], ids=str)
def test_they_are_the_products_of_matrices_in_the_graph_of_the_gradient(Model, changes):
    has_pooler = Model is BertPretrainer
    config = dataclasses.replace(CONFIG, has_pooler=has_pooler, **changes)
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
