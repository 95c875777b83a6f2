import pytest

from bert_keras.errors import InputError
from bert_keras.runs.recipes import PRETRAIN, FinetuneRecipe, named_recipe, task_recipes


def test_changes_take_the_fields_type():
    recipe = named_recipe(PRETRAIN, "demo", changes=["num_steps=100", "learning_rate=1e-4"])
    assert (recipe.num_steps, recipe.learning_rate) == (100, 1e-4)
    assert recipe.batch_size == PRETRAIN["demo"].batch_size


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("dem", [], "no recipe is called 'dem'; known: demo, "),
        ("demo", ["steps=3"], "'steps=3' changes nothing; expected FIELD=VALUE with one of size, "),
        ("demo", ["num_steps"], "'num_steps' changes nothing"),
        ("demo", ["num_steps=many"], "'num_steps=many': expected int"),
        ("demo", ["num_steps=0"], "num_steps is 0; expected at least 1"),
        ("demo", ["size=huge"], "no size is called 'huge'"),
        ("demo", ["mask_unit=letter"], "unit is 'letter'; expected one of piece, word"),
        ("demo", ["replacement=all"], "no replacement is called 'all'; known, in percent"),
    ],
)
def test_what_cannot_be_is_named(name, changes, said):
    with pytest.raises(InputError) as error:
        named_recipe(PRETRAIN, name, changes=changes)
    assert said in str(error.value)


def test_room_for_every_prediction():
    recipe = PRETRAIN["demo"]
    lengths = {64: 10, 128: 20, 512: 77}
    for length, most in lengths.items():
        policy = recipe.masking_policy(max_length=length)
        assert policy.max_predictions == most
        assert policy.num_predictions([length]) == round(0.15 * length) <= most
    assert recipe.masking_changes() == []


def test_finetune_choices_are_checked():
    assert task_recipes("swag")["paper"].batch_size == 16
    assert task_recipes("mrpc")["paper"].batch_size == 32
    with pytest.raises(InputError, match="patience is -1; expected at least 0"):
        named_recipe(task_recipes("mrpc"), "paper", changes=["patience=-1"])
    with pytest.raises(InputError, match="initial_weights is 'none'"):
        FinetuneRecipe(batch_size=1, num_epochs=1, learning_rate=1.0, initial_weights="none")
