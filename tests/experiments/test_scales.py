"""The recipes of each part of the pretraining of an arm, at each scale."""

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.scales import SCALES

TABLE5, TABLE6, C1 = (EXPERIMENTS[name] for name in ("table5", "table6", "c1"))


def parts(scale, arm, *, ends=()):
    return [
        (phase.max_length, phase.recipe.end, phase.recipe.last_step, phase.recipe.seed)
        for phase in SCALES[scale].pretraining(arm, ends=ends)
    ]


def test_phases_are_split_at_the_steps_of_the_arms():
    arm = TABLE5.arms[0]
    assert parts("paper", arm) == [(128, 900_000, 900_000, 1), (512, 1_000_000, 0, 1)]
    steps = [SCALES["paper"].step(arm) for arm in C1.arms]
    ends = [30_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000]
    assert steps == 2 * [*ends, 1_000_000]
    assert parts("paper", arm, ends=steps) == [
        *((128, end, end, seed) for seed, end in enumerate((*ends, 900_000), start=1)),
        (512, 1_000_000, 0, 1),
    ]


@pytest.mark.parametrize("scale", SCALES)
def test_each_arm_has_recipes_at_each_scale(scale):
    for name in SCALES[scale].tables:
        experiment = SCALES[scale].experiment(EXPERIMENTS[name])
        for arm in experiment.arms:
            assert len(arm.published) in (0, len(experiment.columns) - 2 * (name == "table5"))
            assert parts(scale, arm)[-1][1] == SCALES[scale].step(arm) / arm.step_fraction


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_each_arm_of_table6_has_its_size(scale):
    sizes = [SCALES[scale].pretraining(arm)[-1].recipe.size for arm in TABLE6.arms]
    assert len(set(sizes)) == 6
    assert (sizes == [arm.name for arm in TABLE6.arms]) == (scale == "paper")
    with pytest.raises(InputError, match="has no table6; choose one of table5, c1"):
        SCALES["small"].experiment(TABLE6)
