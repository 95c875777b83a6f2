"""The recipes of each part of the pretraining of an arm, at each scale."""

import pytest

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
    assert steps == 2 * [200_000, 400_000, 600_000, 800_000, 1_000_000]
    assert parts("paper", arm, ends=steps) == [
        *((128, end, end, seed) for seed, end in enumerate((*steps[:4], 900_000), start=1)),
        (512, 1_000_000, 0, 1),
    ]


@pytest.mark.parametrize("scale", SCALES)
def test_each_arm_has_recipes_at_each_scale(scale):
    for experiment in EXPERIMENTS.values():
        for arm in experiment.arms:
            assert len(arm.published) in (0, len(experiment.columns))
            assert parts(scale, arm)
    sizes = [SCALES[scale].pretraining(arm)[-1].recipe.size for arm in TABLE6.arms]
    assert len(set(sizes)) == 6
    assert (sizes == [arm.name for arm in TABLE6.arms]) == (scale == "paper")


def test_only_settings_that_an_experiment_needs_identify_its_run():
    needed = SCALES["tiny"].needed(TABLE5)
    assert needed.tunings.keys() == {"mnli", "qnli", "mrpc", "sst2", "squad1"}
    assert not needed.stand_ins and len(SCALES["tiny"].needed(TABLE6).stand_ins) == 6
    assert needed.tuning("mnli") == SCALES["tiny"].tuning("mnli")
