"""The recipes of each part of the pretraining of an arm, at each scale."""

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.scales import SCALES

TABLE5, TABLE6 = EXPERIMENTS["table5"], EXPERIMENTS["table6"]


def test_the_phases_of_the_paper():
    phases = SCALES["paper"].pretraining(TABLE5.arms[0])
    parts = [(each.max_length, each.recipe.end, each.recipe.last_step) for each in phases]
    assert parts == [(128, 900_000, 900_000), (512, 1_000_000, 0)]


@pytest.mark.parametrize("scale", SCALES)
def test_each_arm_has_recipes_at_each_scale(scale):
    for name in SCALES[scale].tables:
        for arm in EXPERIMENTS[name].arms:
            assert len(arm.published) == len(EXPERIMENTS[name].columns)
            assert len(SCALES[scale].pretraining(arm)) == len(SCALES[scale].phases)


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_each_arm_of_table6_has_its_size(scale):
    sizes = [SCALES[scale].pretraining(arm)[-1].recipe.size for arm in TABLE6.arms]
    assert len(set(sizes)) == 6
    assert (sizes == [arm.name for arm in TABLE6.arms]) == (scale == "paper")


def test_a_scale_refuses_an_experiment_that_it_does_not_include():
    with pytest.raises(InputError, match="table5 and c2, but not table6"):
        SCALES["small"].check_includes(TABLE6)
