"""The TensorBoard data of a pretraining on one device and on two."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from bert_keras.config import BertConfig
from bert_keras.models.pretrainer import BertPretrainer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from bert_keras.training import callbacks
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.curves import read_curves
from bert_keras.training.loop import fit_resumable
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.tensorboard.norms import NormsByLayer
from bert_keras.training.tensorboard.performance import flops_per_example
from bert_keras.training.tensorboard.samples import MaskedSamples

CONFIG = BertConfig(vocab_size=20, hidden_size=8, num_layers=2, num_heads=2, max_positions=8)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *(f"word{n}" for n in range(15))))


def batches() -> tf.data.Dataset:
    random = np.random.default_rng(0)
    ids, targets = random.integers(5, 20, (64, 6)), random.integers(5, 20, (64, 2))
    ids[:, 3] = VOCABULARY.mask_id
    zeros = np.zeros((64, 6), "int32")
    x = {"input_ids": ids.astype("int32"), "input_mask": zeros + 1, "segment_ids": zeros}
    x["masked_lm_positions"] = np.tile(np.array([3, 0], "int32"), (64, 1))
    y = {"masked_lm": targets.astype("int32"), "next_sentence": zeros[:, 0]}
    filled = np.tile(np.array([1, 0], "float32"), (64, 1))
    weights = {"masked_lm": filled, "next_sentence": np.ones(64, "float32")}
    return tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(8, drop_remainder=True)


def board(folder):
    batch = next(iter(batches().unbatch().batch(3)))
    samples = MaskedSamples(batch, VOCABULARY, folder / "logs/samples", epochs_per_sample=2)
    return [NormsByLayer(), samples]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_points_have_norms_and_utilisation_and_saved_states_have_samples(
    tmp_path, monkeypatch, devices
):
    monkeypatch.setattr(callbacks, "peak_flops_per_second", lambda dtype: 1e12)
    strategy = tf.distribute.get_strategy()
    if devices > 1:
        strategy = tf.distribute.MirroredStrategy(
            [f"CPU:{index}" for index in range(devices)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = BertPretrainer(CONFIG)
        model.compile(
            optimizer=BertAdamW(0.01),
            loss=pretraining_losses(),
            weighted_metrics=pretraining_metrics(),
        )
        fit_resumable(
            model,
            batches().repeat,
            FitSettings(
                stage="test",
                output=tmp_path,
                num_steps=10,
                steps_per_epoch=2,
                epochs_per_checkpoint=2,
                keep_checkpoints=1,
                batch_size=8,
                tokens_per_example=6,
                flops_per_example=flops_per_example(CONFIG, 6, 2),
            ),
            board=board(tmp_path),
        )
    train = read_curves(tmp_path / "logs")["train"]
    for tag in ("gradient_norm/layer_01", "weight_norm/embeddings", "gradient_norm/heads"):
        assert [step for step, _ in train[tag]] == [2, 4, 6, 8, 10], tag
        assert all(norm > 0 for _, norm in train[tag]), tag
    total_norms = [norm for _, norm in train["optimizer/gradient_norm"]]
    parts = [train[tag] for tag in train if tag.startswith("gradient_norm/")]
    norms = [np.linalg.norm([norm for _, norm in point]) for point in zip(*parts, strict=True)]
    np.testing.assert_allclose(norms, total_norms, rtol=1e-5)
    examples = dict(train["speed/examples_per_second"])
    for step, rate in train["speed/model_flops_utilisation"]:
        per_example = flops_per_example(CONFIG, 6, 2)
        expected = examples[step] * per_example / (devices * 1e12)
        assert rate == pytest.approx(expected, rel=1e-5)
    assert_samples(model, tmp_path / "logs" / "samples")


def assert_samples(model, folder):
    """Compares the samples of the last step with the predictions of the trained model."""
    inputs, targets, _ = next(iter(batches().unbatch().batch(3)))
    logits_PV = model(inputs, training=False)["masked_lm"][:, 0]
    steps = []
    for events in folder.iterdir():
        event = EventAccumulator(str(events)).Reload().Tensors("masked_lm/samples")[0]
        steps.append(event.step)
        if event.step == 10:
            rows = [row.decode() for row in event.tensor_proto.string_val]
    assert sorted(steps) == [4, 8, 10]
    for row, target_ids, logits_V in zip(
        rows, targets["masked_lm"].numpy(), logits_PV, strict=True
    ):
        words = [VOCABULARY.tokens[number] for number in (target_ids[0], np.argmax(logits_V))]
        expected = f"&#91;{words[0]} → {words[1]} {np.max(tf.nn.softmax(logits_V)):.2f}&#93;"
        assert re.fullmatch(
            r"(word\d+ ){3}(\*\*)?" + re.escape(expected) + r"(\*\*)?( word\d+){2}", row
        )
