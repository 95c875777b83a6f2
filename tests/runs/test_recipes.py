import pytest

from bert_keras.errors import InputError
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import named_recipe, pretrain_settings, task_recipes

IMPOSSIBLE = {
    "demo": "step=3 num_steps num_steps=many num_steps=0 num_steps=110 learning_rate=inf beta_2=1 "
    "initializer_stddev=nan optimizer=sgd schedule=cosine initial_weights=zeros "
    "mask_unit=letter replacement=all bias_correction=1",
    "paper": "keep_checkpoints=-1 seed=4294967296 warmup_ratio=nan warmup_ratio=1 "
    "dropout_rate=-0.1 learning_rate=0 learning_rates=1e-3,-1 weight_decay_rate=-1 patience=-1",
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_values_are_refused(name):
    recipes = PRETRAIN if name == "demo" else task_recipes("mrpc")
    for change in IMPOSSIBLE[name].split():
        with pytest.raises(InputError):
            named_recipe(recipes, name, changes=[change])


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        ("laptop-10min", ["steps=40"], (40, 2, 0)),
        ("paper-128", {"num_steps": 1_000}, (1_000, 10, 900)),
        ("paper-128", {"steps": 1_000, "num_warmup_steps": 5, "last_step": 0}, (1_000, 5, 0)),
    ],
)
def test_another_number_of_steps_scales_their_parts(recipe, changes, expected):
    found, _ = pretrain_settings(recipe, teacher=None, changes=changes)
    assert (found.num_steps, found.num_warmup_steps, found.last_step) == expected


def test_max_predictions_suffice_for_every_length():
    for length, most in {64: 10, 128: 20, 512: 77}.items():
        policy = PRETRAIN["demo"].masking_policy(max_length=length)
        assert policy.max_predictions == most
        assert policy.num_predictions([length]) == round(0.15 * length) <= most


def test_recipes_of_tasks():
    assert task_recipes("swag")["paper"].batch_size == 16
    assert task_recipes("mrpc")["paper"].batch_size == 32
    changes = {"bias_correction": True, "learning_rates": [1, 2e-5]}
    changed = named_recipe(task_recipes("mrpc"), "paper", changes=changes)
    texts = ["bias_correction=true", "learning_rates=1,2e-5"]
    assert changed == named_recipe(task_recipes("mrpc"), "paper", changes=texts)
    assert changed.bias_correction and changed.learning_rates == (1.0, 2e-5)
    for other in ({"num_epochs": True}, {"num_epochs": 1.5}, {"seed": None}):
        with pytest.raises(InputError):
            named_recipe(task_recipes("mrpc"), "paper", changes=other)
