"""The recipes of an experiment at each scale, its scores and its pages."""

import json
import math

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.run import Results, Score, score_of, write_page
from bert_keras.experiments.scales import SCALES

TABLE = EXPERIMENTS["c2"]
MNLI = TABLE.columns[0]
TABLE5, TABLE6, C1 = (EXPERIMENTS[name] for name in ("table5", "table6", "c1"))


def results(means):
    scores = {
        (arm.name, MNLI.name): Score((mean - 0.1, mean + 0.1), 1e-3, 0)
        for arm, mean in zip(TABLE.arms, means, strict=False)
    }
    return Results(experiment=TABLE, columns=(MNLI,), remarks=("a note.",), scores=scores)


def test_scores_are_in_percent_at_the_best_learning_rate_without_diverged_runs(tmp_path):
    runs = [
        {"learning_rate": rate, "scores": {} if score is None else {"accuracy": score}}
        for rate, score in ((1e-3, 0.5), (1e-4, 0.7), (1e-4, 0.6), (1e-4, None))
    ]
    outcome = {"best_learning_rate": 1e-4, "runs": runs}
    (tmp_path / "study.json").write_text(json.dumps(outcome))
    score = score_of(tmp_path, MNLI)
    assert score == Score((70, 60), 1e-4, 1)
    assert str(score) == "65.0 ± 7.1" and str(Score((70,), 1e-4, 0)) == "70.0"


def test_the_report_lists_missing_cells_and_diverged_runs(tmp_path):
    partial = results([4, 5, 3, 6, 2])
    partial.scores["80/10/10", "MNLI-m"] = Score((33.0, 35.0), 1e-3, 2)
    write_page(tmp_path, partial)
    for page in ("report.md", "report.html"):
        text = (tmp_path / page).read_text()
        assert "a note." in text and "5 of 6 cells have a score so far" in text
        assert "Diverged: 2 of the runs of 80/10/10 on MNLI-m." in text
    assert "| 80/10/10 | 34.0 ± 1.4 | 84.2 |" in (tmp_path / "report.md").read_text()
    assert "| 0/0/100 | – | 83.6 |" in (tmp_path / "report.md").read_text()


def test_perplexities_are_next_to_those_of_the_paper(tmp_path):
    losses = [math.log(10 - number) for number in range(6)]
    pretrainings = {
        arm.pretraining_name: {"held_out_masked_lm_loss": loss}
        for arm, loss in zip(TABLE6.arms, losses, strict=True)
    }
    table6 = Results(experiment=TABLE6, columns=(MNLI,), remarks=("one replaces another.",))
    table6.pretrainings |= pretrainings
    write_page(tmp_path, table6)
    text = (tmp_path / "report.md").read_text()
    assert "- one replaces another." in text
    assert "perplexity of masked tokens | perplexity, paper |" in text
    assert "| l-3-h-768-a-12 | 2.30 | 10.00 | 5.84 |" in text
    assert "| l-24-h-1024-a-16 | 1.61 | 5.00 | 3.23 |" in text


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
    with pytest.raises(InputError):
        SCALES["small"].experiment(TABLE6)
