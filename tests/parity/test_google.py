"""Outputs and training steps of the original's code (tests/checkpoints/fixtures/README.md)."""

from pathlib import Path

import numpy as np
from scipy.special import log_softmax

from bert_keras.checkpoints import google
from bert_keras.checkpoints.checkpoint import their_tensors
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.checkpoints.tensors import named_weights, stored_weight
from bert_keras.models.loading import load_model
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW, LinearWarmupDecay
from bert_keras.training.states import load_training_state

FIXTURES = Path(__file__).parents[1] / "checkpoints" / "fixtures" / "google"


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(FIXTURES / name / "golden.npz") as file:
        return dict(file)


def under(values, prefix: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): a for n, a in values.items() if n.startswith(prefix)}


def test_outputs_equal_the_original_code():
    expected = {name: golden(name) for name in ("pretraining", "classifier", "squad")}
    inputs = {name: under(values, "inputs/") for name, values in expected.items()}
    models = {name: load_model(FIXTURES / name) for name in expected}
    outputs = {name: model(inputs[name]) for name, model in models.items()}
    states = models["pretraining"].encoder.states(inputs["pretraining"])
    masked_lm, next_sentence = (
        log_softmax(np.asarray(outputs["pretraining"][name]), -1)
        for name in ("masked_lm", "next_sentence")
    )
    for name, key, ours in (
        ("pretraining", "hidden_states", np.stack(states.hidden_states)),
        ("pretraining", "pooled_output", states.pooled_output),
        ("pretraining", "masked_lm_log_probs", masked_lm),
        ("pretraining", "next_sentence_log_probs", next_sentence),
        ("classifier", "logits", outputs["classifier"]),
        ("squad", "start_logits", outputs["squad"]["start"]),
        ("squad", "end_logits", outputs["squad"]["end"]),
    ):
        theirs = expected[name][key]
        assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max(), key


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
        # The softmax over keys does not depend on a key's bias. Its gradient is rounding noise of
        # about 1e-8, which Adam (epsilon 1e-6, rate 0.01) scales to updates of up to 1e-4.
        most = 1e-4 if name.endswith("/key/bias") else 1e-5
        np.testing.assert_allclose(ours[name].read(), array, rtol=0, atol=most, err_msg=name)
    moved = [np.abs(after[name].read() - array).max() for name, array in before.items()]
    assert np.median(moved) > 0.01  # all weights except the keys' biases move
