"""The order of arms compared with the paper's, and the pages of results."""

import json
import math

import pytest

from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.page import Pretraining, Results, Score, write_page
from bert_keras.experiments.run import score_of

TABLE = EXPERIMENTS["c2"]
MNLI = TABLE.columns[0]
# The order of the paper's Table C.2: 80/20/0, 100/0/0, 80/10/10, 80/0/20, 0/20/80, 0/0/100.
IN_ORDER = [4, 5, 3, 6, 2, 1]


def results(means):
    scores = {
        (arm.name, MNLI.name): Score((mean - 0.1, mean + 0.1), 1e-3, 0)
        for arm, mean in zip(TABLE.arms, means, strict=False)
    }
    return Results(experiment=TABLE, columns=(MNLI,), remarks=("a note.",), scores=scores)


@pytest.mark.parametrize(
    ("means", "tau"),
    [
        (IN_ORDER, 1),
        ([-mean for mean in IN_ORDER], -1),
        ([4, 6, 3, 5, 2, 1], 0.87),  # one of fifteen pairs is reversed
        ([5] * 6, None),
        (IN_ORDER[:5], None),  # incomplete
    ],
)
def test_kendalls_tau_compares_the_order_with_the_papers(without_charts, tmp_path, means, tau):
    write_page(tmp_path, results(means))
    values = json.loads((tmp_path / "results.json").read_text())
    assert values["kendall_tau"] == ({} if tau is None else {"MNLI-m": tau})
    assert len(values["cells"]) == len(means)
    order = "| MNLI-m | 80/20/0 > 100/0/0 > 80/10/10 > 80/0/20 > 0/20/80 > 0/0/100 |"
    assert (order in (tmp_path / "report.md").read_text()) == (tau == 1)


def test_scores_are_in_percent_at_the_best_learning_rate(tmp_path, monkeypatch):
    runs = [
        {"folder": "", "learning_rate": rate, "scores": {"accuracy": score}}
        for rate, score in ((1e-3, 0.5), (1e-4, 0.7), (1e-4, 0.6))
    ]
    outcome = {"best_learning_rate": 1e-4, "runs": runs}
    (tmp_path / "study.json").write_text(json.dumps(outcome))
    curves = {"held_out": {"score/accuracy": [(1, 0.5)]}}
    monkeypatch.setattr("bert_keras.experiments.run.read_curves", lambda logs: curves)
    score = score_of(tmp_path, MNLI)
    assert score == Score((70, 60), 1e-4, 0, curves=([(1, 0.5)],) * 2)
    assert str(score) == "65.0 ± 7.1" and str(Score((70,), 1e-4, 0)) == "70.0"


def test_a_seed_that_diverged_is_counted_and_has_no_score(tmp_path, monkeypatch):
    curves = {"held_out": {"score/accuracy": [(1, 0.7)]}}
    monkeypatch.setattr("bert_keras.experiments.run.read_curves", lambda folder: curves)
    runs = [
        {"folder": "seed-1", "learning_rate": 1e-4, "scores": {}},
        {"folder": "seed-2", "learning_rate": 1e-4, "scores": {"accuracy": 0.7}},
    ]
    (tmp_path / "study.json").write_text(json.dumps({"best_learning_rate": 1e-4, "runs": runs}))
    score = score_of(tmp_path, MNLI)
    assert score.seeds == pytest.approx((70.0,))
    assert (score.diverged, len(score.curves)) == (1, 1)


@pytest.fixture
def without_charts(monkeypatch):
    monkeypatch.setattr("bert_keras.experiments.page.svg", lambda chart: "<svg></svg>")


def test_the_report_lists_missing_cells_and_diverged_runs(tmp_path, without_charts):
    partial = results(IN_ORDER[:5])
    partial.scores["80/10/10", "MNLI-m"] = Score((33.0, 35.0), 1e-3, 2)
    write_page(tmp_path, partial)
    for page in ("report.md", "report.html"):
        text = (tmp_path / page).read_text()
        assert "a note." in text and "5 of 6 cells have a score so far" in text
        assert "Diverged: 2 of the runs of 80/10/10 on MNLI-m." in text
    assert "| 80/10/10 | 34.0 ± 1.4 | 84.2 |" in (tmp_path / "report.md").read_text()
    assert "| 0/0/100 | – | 83.6 |" in (tmp_path / "report.md").read_text()


def test_perplexities_are_next_to_those_of_the_paper(tmp_path, without_charts):
    arms = EXPERIMENTS["table6"].arms
    losses = [math.log(10 - number) for number in range(6)]
    pretrainings = {
        arm.pretraining_name: Pretraining(scores={"held_out_masked_lm_loss": loss}, curves={})
        for arm, loss in zip(arms, losses, strict=True)
    }
    table6 = Results(
        experiment=EXPERIMENTS["table6"], columns=(MNLI,),
        remarks=("one replaces another.",), pretrainings=pretrainings,
    )  # fmt: skip
    write_page(tmp_path, table6)
    text = (tmp_path / "report.md").read_text()
    assert "- one replaces another." in text
    assert "perplexity of masked tokens | perplexity, paper |" in text
    assert "| l-3-h-768-a-12 | 0:00:00 | 2.30 | 10.00 | 5.84 |" in text
    assert "| l-24-h-1024-a-16 | 0:00:00 | 1.61 | 5.00 | 3.23 |" in text


def test_a_figure_has_a_chart_by_steps_and_no_published_scores(tmp_path):
    arms = EXPERIMENTS["c1"].arms
    figure = Results(
        experiment=EXPERIMENTS["c1"], columns=(MNLI,), remarks=(),
        steps={arm.name: round(100 * arm.step_fraction) for arm in arms},
        scores={
            (arm.name, "MNLI-m"): Score(
                (50.0 + 10 * arm.step_fraction,), 1e-3, 0,
                curves=([(3, 100 / 3), (6, math.nextafter(100 / 3, 0))],),
            )
            for arm in arms
        },
    )  # fmt: skip
    write_page(tmp_path, figure)
    text = (tmp_path / "report.md").read_text()
    assert "|  | MNLI-m |" in text and "| BERT, 20% of the steps | 52.0 |" in text
    assert "paper" not in text and "## Order" not in text
    chart = (tmp_path / "curves" / "mnli-m-by-steps.svg").read_text()
    assert chart.count("<title>") == 2 and ">left-to-right<" in chart
