"""What an error message or a warning of a training tells the user to do succeeds."""

import dataclasses

import keras
import pytest

from bert_keras.distribution.numerics import named_policy
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertMaskedLM, BertQuestionAnswering
from bert_keras.training.callbacks import FitSettings
from bert_keras.training.distiller import Distiller
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW, Muon
from bert_keras.training.schedule import LinearWarmupDecay
from tests.training import test_guard
from tests.training.test_loop import CONFIG, batches

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def train(output, *, learning_rate, num_warmup_steps=8):
    keras.utils.set_random_seed(1)
    model = BertClassifier(CONFIG, num_labels=2)
    schedule = LinearWarmupDecay(learning_rate, num_steps=10**5, num_warmup_steps=num_warmup_steps)
    model.compile(BertAdamW(schedule), loss=LOSS)
    settings = FitSettings(
        stage="test",
        output=output,
        num_steps=12,
        steps_per_epoch=4,
        epochs_per_checkpoint=10,
        keep_checkpoints=2,
        batch_size=8,
        tokens_per_example=6,
        max_skipped=0,
    )
    fit_resumable(model, batches().repeat, settings)


@pytest.mark.slow
def test_a_training_that_explodes_succeeds_with_a_lower_learning_rate_or_a_longer_warmup(tmp_path):
    remedy = (
        "; this state is not saved: look at .*step-7 and start again in another output folder, "
        "with a lower learning_rate or a longer warmup"
    )
    with pytest.raises(InputError, match=remedy):
        train(tmp_path / "new", learning_rate=1.0)
    train(tmp_path / "lower", learning_rate=0.001)
    train(tmp_path / "longer", learning_rate=1.0, num_warmup_steps=10**4)


def test_a_training_with_a_bad_batch_continues_or_starts_again(tmp_path):
    remedy = (
        r"look at (.*), then continue with the same command, or start again in another output "
        "folder, with a lower learning_rate or max_skipped above 0"
    )
    with pytest.raises(InputError, match=remedy):
        test_guard.train(tmp_path, bad_steps=(5,))
    assert (tmp_path / "faults" / "step-5" / "weights.tsv").is_file()
    assert test_guard.train(tmp_path, bad_steps=(5,)).optimizer.iterations == test_guard.STEPS
    other = test_guard.train(tmp_path / "other", bad_steps=(5,), max_skipped=1)
    assert other.optimizer.iterations == test_guard.STEPS


def distiller(model, *sizes, alpha_cosine):
    student, teacher = (model(dataclasses.replace(CONFIG, hidden_size=size)) for size in sizes)
    distiller = Distiller(student, teacher, alpha_cosine=alpha_cosine)
    distiller.compile(loss=LOSS)
    return distiller


@pytest.mark.parametrize(
    ("model", "sizes", "remedy"),
    [
        (BertQuestionAnswering, (8, 8), "which alpha_cosine compares; set it to 0"),
        (BertMaskedLM, (8, 16), "expected the same or alpha_cosine 0"),
    ],
)
def test_a_distillation_succeeds_without_cosines(model, sizes, remedy):
    with pytest.raises(InputError, match=remedy):
        distiller(model, *sizes, alpha_cosine=1.0)
    distiller(model, *sizes, alpha_cosine=0.0)


def test_an_optimizer_of_layers_succeeds_with_an_encoder_or_without_layers():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="layer_0")])
    expected = "expected a model that trains a BertEncoder; "
    for optimizer, remedy, other in (
        (Muon(), "use BertAdamW", BertAdamW()),
        (BertAdamW(layer_rate_decay=0.9), "leave layer_rate_decay out", BertAdamW()),
    ):
        for _ in range(2):
            with pytest.raises(InputError, match=expected + remedy):
                optimizer.build(model.trainable_variables)
        other.build(model.trainable_variables)
        optimizer.build(BertMaskedLM(CONFIG).trainable_variables)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_training_of_half_precision_succeeds_with_a_mixed_policy(precision):
    def fit(policy):
        keras.config.set_dtype_policy(policy)
        try:
            model = BertClassifier(CONFIG, num_labels=2)
            model.compile(BertAdamW(1e-3), loss=LOSS)
            return model.fit(batches().take(1), shuffle=False, verbose=0)
        finally:
            keras.config.set_dtype_policy("float32")

    remedy = f"use the dtype policy mixed_{precision}, which keeps the weights in float32"
    with pytest.raises(InputError, match=remedy):
        fit(precision)
    assert fit(named_policy(precision))
