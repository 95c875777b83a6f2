"""The recipes of an experiment at each scale, its scores and its page."""

import json

import pytest

from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.run import Results, Score, score_of, write_page
from bert_keras.experiments.scales import SCALES

TABLE = EXPERIMENTS["c2"]
MNLI = TABLE.columns[0]
TABLE6 = EXPERIMENTS["table6"]


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


@pytest.mark.parametrize("scale", SCALES)
def test_each_arm_has_recipes_at_each_scale(scale):
    for name in SCALES[scale].tables:
        experiment = EXPERIMENTS[name]
        for arm in experiment.arms:
            assert len(arm.published) in (0, len(experiment.columns) - 2 * (name == "table5"))
            assert SCALES[scale].pretraining(arm).num_steps > 0


def test_each_arm_of_table6_has_its_size():
    sizes = [SCALES["tiny"].pretraining(arm).size for arm in TABLE6.arms]
    assert len(set(sizes)) == 6
