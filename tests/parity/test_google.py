"""Google's own numbers: what the original's code answers, and how it trains on, from a checkpoint.

The outputs in tests/checkpoints/fixtures/google are those of its code (make_google_fixtures.py
there).
"""

from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.checkpoints import google
from bert_keras.checkpoints.checkpoint import their_tensors
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.tensors import stored_weight
from bert_keras.config import BertConfig
from bert_keras.models import BertClassifier, BertPretrainer, BertQuestionAnswering, load_model
from bert_keras.models.pretrained import named_weights
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay
from bert_keras.training.states import load_training_state

FIXTURES = Path(__file__).parents[1] / "checkpoints" / "fixtures" / "google"


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(FIXTURES / name / "golden.npz") as file:
        return dict(file)


def under(values, prefix: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): a for n, a in values.items() if n.startswith(prefix)}


def outputs(model: BertPretrainer, batch) -> dict[str, np.ndarray]:
    states, logits = model.encoder.states(batch), model(batch)
    return {
        "hidden_states": np.stack([np.asarray(state) for state in states.hidden_states]),
        "pooled_output": np.asarray(states.pooled_output),
        "masked_lm_log_probs": log_softmax(np.asarray(logits["masked_lm"])),
        "next_sentence_log_probs": log_softmax(np.asarray(logits["next_sentence"])),
    }


def assert_close(ours, theirs, *, to: float = 1e-5):
    for name, reference in theirs.items():
        difference = np.abs(ours[name] - reference).max()
        assert difference <= to * np.abs(reference).max(), f"{name}: {difference}"


def forward(variables: Mapping[str, np.ndarray], *, num_layers: int, num_heads: int, batch):
    """Hidden states (num_layers + 1 of them), pooled vector, log-probabilities of both heads."""
    variable = {name: np.asarray(array, "float64") for name, array in variables.items()}

    def dense(x, name):
        return x @ variable[f"{name}/kernel"] + variable[f"{name}/bias"]

    def norm(x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        gamma, beta = variable[f"{name}/LayerNorm/gamma"], variable[f"{name}/LayerNorm/beta"]
        return gamma * (x - mean) / np.sqrt(variance + 1e-12) + beta

    def heads(x):
        return x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

    ids, mask = batch["input_ids"], batch["input_mask"]
    x = variable["bert/embeddings/word_embeddings"][ids]
    x = x + variable["bert/embeddings/token_type_embeddings"][batch["segment_ids"]]
    x = x + variable["bert/embeddings/position_embeddings"][: ids.shape[1]]
    states = [norm(x, "bert/embeddings")]
    for index in range(num_layers):
        layer, x = f"bert/encoder/layer_{index}", states[-1]
        query, key, value = (
            heads(dense(x, f"{layer}/attention/self/{name}")) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        attention = softmax(scores - 10_000.0 * (1 - mask[:, None, None, :]))
        context = (attention @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense(context, f"{layer}/attention/output/dense"), f"{layer}/attention/output")
        inner = gelu(dense(x, f"{layer}/intermediate/dense"))
        states.append(norm(x + dense(inner, f"{layer}/output/dense"), f"{layer}/output"))
    pooled = np.tanh(dense(states[-1][:, 0], "bert/pooler/dense"))
    masked = np.take_along_axis(states[-1], batch["masked_lm_positions"][..., None], axis=1)
    masked = norm(
        gelu(dense(masked, "cls/predictions/transform/dense")), "cls/predictions/transform"
    )
    words = masked @ variable["bert/embeddings/word_embeddings"].T
    nexts = pooled @ variable["cls/seq_relationship/output_weights"].T
    return {
        "hidden_states": np.stack(states),
        "pooled_output": pooled,
        "masked_lm_log_probs": log_softmax(words + variable["cls/predictions/output_bias"]),
        "next_sentence_log_probs": log_softmax(
            nexts + variable["cls/seq_relationship/output_bias"]
        ),
    }


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    return np.exp(log_softmax(x))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def random_batch(*, vocab_size: int, length: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    mask = (np.arange(length) < random.integers(4, length + 1, (5, 1))).astype("int32")
    return {
        "input_ids": random.integers(0, vocab_size, (5, length), dtype="int32") * mask,
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, (5, length), dtype="int32") * mask,
        "masked_lm_positions": random.integers(1, 4, (5, 2), dtype="int32"),
    }


def test_pretrainer_outputs_equal_the_original_code():
    expected = golden("pretraining")
    inputs = under(expected, "inputs/")
    names = ("hidden_states", "pooled_output", "masked_lm_log_probs", "next_sentence_log_probs")
    expected = {name: expected[name] for name in names}
    ours = outputs(BertPretrainer.from_pretrained(FIXTURES / "pretraining"), inputs)
    assert_close(ours, expected)
    reader = tf.train.load_checkpoint(str(FIXTURES / "pretraining" / "bert_model.ckpt"))
    variables = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    stated = forward(variables, num_layers=2, num_heads=2, batch=inputs)
    assert_close(stated, expected)


def test_classifier_and_span_outputs_equal_the_original_code():
    expected = golden("classifier")
    model = BertClassifier.from_pretrained(FIXTURES / "classifier")
    logits = np.asarray(model(under(expected, "inputs/")))
    assert_close({"logits": logits}, {"logits": expected["logits"]})
    expected = golden("squad")
    inputs = under(expected, "inputs/")
    logits = BertQuestionAnswering.from_pretrained(FIXTURES / "squad")(inputs)
    assert_close(
        {name: np.asarray(array) for name, array in logits.items()},
        {name: expected[f"{name}_logits"] for name in ("start", "end")},
    )


def test_toy_checkpoint_outputs_equal_the_numpy_formula(shared_data):
    toy = shared_data / "checkpoints" / "keras_bert_test_checkpoint"
    model, batch = load_model(toy), random_batch(vocab_size=15, length=16)
    reader = tf.train.load_checkpoint(str(toy / "bert_model.ckpt"))
    variables = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    stated = forward(variables, num_layers=2, num_heads=4, batch=batch)
    assert_close(outputs(model, batch), stated)


def test_outputs_equal_the_numpy_formula_on_the_written_file(tmp_path):
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=40,
        hidden_size=32,
        num_layers=3,
        num_heads=4,
        max_positions=32,
        activation="gelu_tanh",
        initializer_stddev=0.2,
    )
    model, batch = BertPretrainer(config), random_batch(vocab_size=40, length=32)
    model.save_pretrained(tmp_path / "theirs", format="google")
    reader = tf.train.load_checkpoint(str(tmp_path / "theirs"))
    variables = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    stated = forward(variables, num_layers=3, num_heads=4, batch=batch)
    assert_close(outputs(model, batch), stated)


def test_continued_training_equals_the_original_code():
    expected, checkpoint = golden("pretraining"), open_checkpoint(FIXTURES / "pretraining")
    model = load_model(FIXTURES / "pretraining")
    model.compile(
        optimizer=BertAdamW(LinearWarmupDecay(0.01, num_steps=10, num_warmup_steps=2)),  # as there
        loss=pretraining_losses(),
    )
    load_training_state(model, checkpoint.state)
    before = {name: np.array(weight) for name, weight in named_weights(model).items()}
    for step in (3, 4, 5):
        batch = under(expected, f"step_{step}/")
        targets = {"masked_lm": batch.pop("masked_lm_ids")}
        targets["next_sentence"] = batch.pop("next_sentence_labels")[:, 0]
        weights = {"masked_lm": batch.pop("masked_lm_weights"), "next_sentence": np.ones(4)}
        model.train_on_batch(batch, targets, sample_weight=weights)
    after = {name: stored_weight(weight) for name, weight in named_weights(model).items()}
    names = google.weight_names(model.config)
    ours = their_tensors(after, names, is_transposed=google.is_transposed, format="google")
    theirs = under(expected, "after/")
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        # The softmax over keys does not depend on a key's bias: its gradient is 0 but for rounding
        # noise of about 1e-8, which Adam (epsilon 1e-6, rate 0.01) scales to updates up to 1e-4.
        most = 1e-4 if name.endswith("/key/bias") else 1e-5
        np.testing.assert_allclose(ours[name].read(), array, rtol=0, atol=most, err_msg=name)
    moved = [np.abs(after[name].read() - array).max() for name, array in before.items()]
    assert np.median(moved) > 0.01  # a key's bias alone has no gradient but rounding
