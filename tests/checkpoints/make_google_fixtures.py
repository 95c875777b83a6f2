"""The original's own code makes, trains and saves three tiny models; what they answer goes beside.

BERT_ORIGINAL=/path/to/google-research/bert python tests/checkpoints/make_google_fixtures.py FOLDER

FOLDER gets pretraining, classifier and squad: each with a checkpoint of the original's variables,
optimizer and tf.train.Saver, and golden.npz: `inputs/`, what the model answers to them, the batches
of the next steps (`step_3/` ...) and what the variables are `after/` these. The original is written
for TensorFlow 1; `Original` gives it the few names that TensorFlow 2 has no more.
"""

import json
import os
import sys
import types
from pathlib import Path

import numpy as np
import tensorflow

tf = tensorflow.compat.v1
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop", "##a", "##b"]
CONFIG = {
    "attention_probs_dropout_prob": 0.0,  # random numbers would differ from ours
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 8,
    "initializer_range": 0.3,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(TOKENS),
}
BATCH, LENGTH, PREDICTIONS = 4, 10, 3
RATE, NUM_STEPS, NUM_WARMUP_STEPS = 0.01, 10, 2
STEPS_BEFORE, STEPS_AFTER = 3, 3


class Original(types.ModuleType):
    """`import tensorflow` as the original's files mean it."""

    def __init__(self):
        super().__init__("tensorflow")
        self.contrib = types.SimpleNamespace(
            layers=types.SimpleNamespace(layer_norm=layer_norm),
            tpu=types.SimpleNamespace(),
            cluster_resolver=types.SimpleNamespace(),
        )
        self.layers = types.SimpleNamespace(dense=dense)
        self.flags = _Flags()

    def __getattr__(self, name):
        return getattr(tf, name)


class _Flags:
    FLAGS = types.SimpleNamespace()

    def __getattr__(self, name):
        return lambda *arguments, **options: None


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope):
    assert begin_norm_axis == begin_params_axis == -1
    with tf.variable_scope(scope, default_name="LayerNorm"):
        beta = tf.get_variable("beta", inputs.shape[-1:], initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", inputs.shape[-1:], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def dense(inputs, units, activation=None, name=None, kernel_initializer=None):
    with tf.variable_scope(name, default_name="dense"):
        kernel = tf.get_variable(
            "kernel", [inputs.shape[-1], units], initializer=kernel_initializer
        )
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        outputs = tf.tensordot(inputs, kernel, [[-1], [0]]) + bias
        return outputs if activation is None else activation(outputs)


def batch(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    real = random.integers(6, LENGTH + 1, BATCH)
    mask = np.arange(LENGTH) < real[:, None]
    ids = random.integers(5, len(TOKENS), (BATCH, LENGTH)) * mask
    return {
        "input_ids": ids.astype("int32"),
        "input_mask": mask.astype("int32"),
        "segment_ids": ((np.arange(LENGTH) > 4) & mask).astype("int32"),
        "masked_lm_positions": random.integers(1, 6, (BATCH, PREDICTIONS)).astype("int32"),
        "masked_lm_ids": random.integers(5, len(TOKENS), (BATCH, PREDICTIONS)).astype("int32"),
        "masked_lm_weights": (np.arange(PREDICTIONS) < 2 + (real[:, None] > 8)).astype("float32"),
        "next_sentence_labels": random.integers(0, 2, (BATCH, 1)).astype("int32"),
    }


def pretraining(modeling, config, inputs):
    import run_pretraining

    model = _model(modeling, config, inputs)
    masked_loss, _, log_probs = run_pretraining.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        inputs["masked_lm_positions"],
        inputs["masked_lm_ids"],
        inputs["masked_lm_weights"],
    )
    next_loss, _, next_log_probs = run_pretraining.get_next_sentence_output(
        config, model.get_pooled_output(), inputs["next_sentence_labels"]
    )
    layers = [model.get_embedding_output(), *model.get_all_encoder_layers()]
    return masked_loss + next_loss, {
        "hidden_states": tf.stack(layers),
        "pooled_output": model.get_pooled_output(),
        "masked_lm_log_probs": tf.reshape(log_probs, [BATCH, PREDICTIONS, -1]),
        "next_sentence_log_probs": next_log_probs,
    }


def classifier(modeling, config, inputs):
    import run_classifier

    labels = tf.reshape(inputs["masked_lm_ids"], [BATCH, -1])[:, 0] % 3
    loss, _, logits, _ = run_classifier.create_model(
        config,
        False,  # when training it drops out at a rate that no config changes
        inputs["input_ids"],
        inputs["input_mask"],
        inputs["segment_ids"],
        labels,
        3,
        False,
    )
    return loss, {"logits": logits}


def squad(modeling, config, inputs):
    import run_squad

    start, end = run_squad.create_model(
        config, True, inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"], False
    )
    results = inputs["masked_lm_positions"]
    loss = sum(
        tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        for labels, logits in ((results[:, 0], start), (results[:, 1], end))
    )
    return loss / 2, {"start_logits": start, "end_logits": end}


def _model(modeling, config, inputs):
    return modeling.BertModel(
        config=config,
        is_training=True,
        input_ids=inputs["input_ids"],
        input_mask=inputs["input_mask"],
        token_type_ids=inputs["segment_ids"],
        use_one_hot_embeddings=False,
    )


def make(folder: Path, build, prefix: str) -> None:
    """Trains `STEPS_BEFORE`, saves, answers, trains `STEPS_AFTER` more."""
    import modeling
    import optimization

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    (folder / "bert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        global_step = tf.train.get_or_create_global_step()
        inputs = {name: tf.placeholder(a.dtype, a.shape) for name, a in batch(0).items()}
        loss, results = build(modeling, modeling.BertConfig.from_dict(CONFIG), inputs)
        train = optimization.create_optimizer(loss, RATE, NUM_STEPS, NUM_WARMUP_STEPS, False)
        session.run(tf.global_variables_initializer())
        random = np.random.default_rng(1)
        for variable in tf.trainable_variables():  # biases, gamma and beta too must count
            noise = random.normal(0, 0.1, variable.shape.as_list())
            session.run(variable.assign_add(noise.astype("float32")))

        def fed(seed):
            return {inputs[name]: array for name, array in batch(seed).items()}

        for seed in range(STEPS_BEFORE):
            session.run(train, fed(seed))
        tf.train.Saver().save(session, str(folder / prefix), write_meta_graph=False)
        golden = session.run(results, fed(100))
        golden |= {f"inputs/{name}": array for name, array in batch(100).items()}
        for seed in range(STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER):
            session.run(train, fed(seed))
            golden |= {f"step_{seed}/{name}": array for name, array in batch(seed).items()}
        after = session.run({v.op.name: v for v in tf.trainable_variables()})
        golden |= {f"after/{name}": value for name, value in after.items()}
        assert session.run(global_step) == STEPS_BEFORE + STEPS_AFTER
    np.savez_compressed(folder / "golden.npz", **golden)
    (folder / "checkpoint").unlink()


if __name__ == "__main__":
    sys.path.insert(0, os.environ["BERT_ORIGINAL"])
    sys.modules["tensorflow"] = Original()
    tf.disable_v2_tensorshape()
    for name, build, prefix in (
        ("pretraining", pretraining, "bert_model.ckpt"),
        ("classifier", classifier, "model.ckpt-3"),
        ("squad", squad, "model.ckpt-3"),
    ):
        make(Path(sys.argv[1]) / name, build, prefix)
