import math

import pytest
from tensorflow.python.framework import config

from bert_keras.errors import InputError
from bert_keras.presets import preset
from bert_keras.runs.hyperparameters import FinetuneRecipe
from bert_keras.runs.pretrain import compiled_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import GPU_FLOPS_PER_SECOND, PRETRAIN
from bert_keras.runs.settings import named_recipe, task_recipes
from bert_keras.training.tensorboard.performance import flops_per_example
from tests.runs.test_runs import records  # noqa: F401


def test_changes_are_converted_to_the_type_of_the_field():
    recipe = named_recipe(PRETRAIN, "demo", changes=["num_steps=200", "learning_rate=1e-4"])
    assert (recipe.num_steps, recipe.learning_rate) == (200, 1e-4)
    assert recipe.batch_size == PRETRAIN["demo"].batch_size


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("dem", [], "no recipe is called 'dem'; known: demo, "),
        (
            "demo",
            ["steps=3"],
            "'steps=3' is not a setting; expected FIELD=VALUE, where FIELD is ",
        ),
        ("demo", ["num_steps"], "'num_steps' is not a setting"),
        ("demo", ["num_steps=many"], "'num_steps=many': expected int"),
        ("demo", ["num_steps=0"], "num_steps is 0; expected at least 1"),
        ("demo", ["num_steps=110"], "num_warmup_steps is 110; expected less than num_steps, 110"),
        ("demo", ["keep_checkpoints=0"], "keep_checkpoints is 0; expected at least 1"),
        ("demo", ["learning_rate=inf"], "learning_rate is inf; expected a number above 0"),
        ("demo", ["beta_2=1"], "beta_2 is 1.0; expected a rate in [0, 1)"),
        ("demo", ["max_gradient_norm=inf"], "max_gradient_norm is inf; expected 0 or a number"),
        ("demo", ["initializer_stddev=nan"], "initializer_stddev is nan; expected"),
        ("demo", ["optimizer=sgd"], "optimizer is 'sgd'; expected one of adamw, lamb, muon"),
        ("demo", ["schedule=cosine"], "schedule is 'cosine'; expected one of linear, warmup-"),
        ("bert-hour", ["initial_weights=zeros"], "initial_weights is 'zeros'; expected one of"),
        ("bert-hour", ["size=modern-mini"], "but the size has rotary positions; choose"),
        ("demo", ["size=huge"], "no size is called 'huge'"),
        ("demo", ["mask_unit=letter"], "unit is 'letter'; expected one of piece, word"),
        ("demo", ["replacement=all"], "is called 'all'; known: 80-10-10, "),
    ],
)
def test_wrong_recipe_names_and_changes_are_refused(name, changes, message):
    with pytest.raises(InputError) as error:
        named_recipe(PRETRAIN, name, changes=changes)
    assert message in str(error.value)


def test_max_predictions_suffice_for_every_length():
    recipe = PRETRAIN["demo"]
    lengths = {64: 10, 128: 20, 512: 77}
    for length, most in lengths.items():
        policy = recipe.masking_policy(max_length=length)
        assert policy.max_predictions == most
        assert policy.num_predictions([length]) == round(0.15 * length) <= most
    assert recipe.masking_changes() == []


def test_settings_of_finetune_recipes_are_checked():
    assert task_recipes("swag")["paper"].batch_size == 16
    assert task_recipes("mrpc")["paper"].batch_size == 32
    corrected = named_recipe(task_recipes("mrpc"), "paper", changes=["bias_correction=true"])
    assert corrected.bias_correction
    with pytest.raises(InputError, match="'bias_correction=1': expected one of true, false"):
        named_recipe(task_recipes("mrpc"), "paper", changes=["bias_correction=1"])
    with pytest.raises(InputError, match="patience is -1; expected at least 0"):
        named_recipe(task_recipes("mrpc"), "paper", changes=["patience=-1"])
    with pytest.raises(InputError, match="initial_weights is 'none'"):
        FinetuneRecipe(batch_size=1, num_epochs=1, learning_rate=1.0, initial_weights="none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("keep_checkpoints=-1", "keep_checkpoints is -1; expected at least 1"),
        ("seed=4294967296", "seed is 4294967296; expected 0 to 4294967295"),
        ("warmup_rate=nan", "warmup_rate is nan; expected a rate in [0, 1)"),
        ("warmup_rate=1", "warmup_rate is 1.0; expected a rate"),
        ("dropout_rate=-0.1", "dropout_rate is -0.1; expected a rate in [0, 1)"),
        ("learning_rate=nan", "learning_rate is nan; expected a number above 0"),
        ("learning_rate=0", "learning_rate is 0.0; expected a number above 0"),
        ("learning_rates=1e-3,-1", "learning_rates is -1.0; expected a number above 0"),
        ("weight_decay_rate=nan", "weight_decay_rate is nan; expected 0 or"),
        ("weight_decay_rate=-1", "weight_decay_rate is -1.0; expected 0 or"),
    ],
)
def test_values_out_of_range_are_refused(change, message):
    with pytest.raises(InputError) as error:
        named_recipe(task_recipes("mrpc"), "paper", changes=[change])
    assert message in str(error.value)


@pytest.mark.parametrize(("name", "hours"), [("gpu-hour", 1), ("gpu-day", 24)])
def test_the_recipes_for_a_gpu_fill_their_time_at_the_assumed_speed(name, hours):
    recipe = PRETRAIN[name]
    flops = flops_per_example(preset(recipe.size), length=128, num_predictions=20)
    seconds = recipe.num_steps * recipe.batch_size * flops / GPU_FLOPS_PER_SECOND
    assert seconds == pytest.approx(3600 * hours, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpu-hour", "gpu-day"])
def test_xla_compiles_the_step_of_the_recipes_for_a_gpu(name, records, monkeypatch):  # noqa: F811
    # The tests compute deterministically, and then Keras does not use XLA.
    monkeypatch.setattr(config, "is_op_determinism_enabled", lambda: False)
    changes = ["size=modern-tiny", "batch_size=32", "num_steps=2", "num_warmup_steps=1"]
    recipe = named_recipe(PRETRAIN, name, changes=changes)
    inputs = PretrainInputs(recipe, records=records)
    model = compiled_pretrainer(inputs, resumes=False)
    model.jit_compile = True  # as Keras does on a GPU
    assert model.jit_compile
    fitted = model.fit(inputs.training_batches(), steps_per_epoch=2, shuffle=False, verbose=0)
    assert math.isfinite(fitted.history["loss"][0]) and model.optimizer.skipped == 0
    assert model.optimizer.iterations == 2
