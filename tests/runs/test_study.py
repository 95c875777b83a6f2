"""Studies: folders, statistics, diverged runs, continued studies and reports."""

import dataclasses
import json

import pytest

from bert_keras.errors import InputError
from bert_keras.runs.outcome import claimed_output, read_scores, write_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.study import study
from bert_keras.training.evaluations import DivergedError

RECIPE = FinetuneRecipe(batch_size=4, num_epochs=1, learning_rate=1e-3)
SCORES = {3e-5: (0.8, 0.9, 0.7), 2e-5: (0.5, 0.95, 0.6)}  # by learning rate, of the seeds 1 to 3


class FakeRun:
    """As `finetune`: writes scores, and does not repeat a finished run."""

    def __init__(self, interrupted_at=None, recipe=RECIPE, diverging=()):
        self.finished, self.interrupted_at, self.recipe = [], interrupted_at, recipe
        self.diverging = diverging  # learning rates

    def __call__(self, recipe, output):
        if recipe.learning_rate in self.diverging:
            raise DivergedError("the training loss is nan at step 3")
        with claimed_output(output, dataclasses.asdict(recipe)):
            if (scores := read_scores(output)) is not None:
                return scores
            if len(self.finished) == self.interrupted_at:
                raise KeyboardInterrupt
            self.finished.append(output.relative_to(output.parents[1]).as_posix())
            score = SCORES[recipe.learning_rate][recipe.seed - 1]
            (output / "model").mkdir()
            return write_scores(output, {"accuracy": score, "majority_accuracy": 0.5, "steps": 3})


@pytest.fixture
def output(tmp_path):
    return tmp_path / "rte <& co>"


@pytest.fixture
def several(output):
    def several(run, seeds=3):
        options = {"metric": "accuracy", "seeds": seeds, "learning_rates": (3e-5, 2e-5)}
        return study(run, run.recipe, output=output, **options)

    return several


def outcome(output):
    return json.loads((output / "study.json").read_text())


def test_a_study_reports_the_statistics_of_each_learning_rate(several, output):
    lines = several(FakeRun()).splitlines()
    first, second = outcome(output)["learning_rates"]
    spread = pytest.approx(0.2)
    expected = {"learning_rate": 3e-5, "median": 0.8, "best": 0.9, "spread": spread, "runs": 3}
    assert first == expected and second["median"] == 0.6
    assert outcome(output)["best_learning_rate"] == 3e-5
    assert outcome(output)["best_run"] == "lr-2e-05/seed-2"
    assert read_scores(output / "best")["accuracy"] == 0.95
    assert lines[3].split() == ["2e-05", "0.6000", "0.9500", "0.4500", "3"]
    assert "lr-2e-05/seed-2, accuracy 0.9500" in lines[-2] and "3e-05" in lines[-1]
    page = (output / "report.html").read_text()
    assert page.count("<table>") == 2 and "<script" not in page
    assert page.count("rte &lt;&amp; co&gt;") == 2  # title and heading
    assert "| 3e-05 | 0.8000 | 0.9000 | 0.2000 | 3 |" in (output / "report.md").read_text()


@pytest.mark.slow
def test_a_study_continues_after_an_interruption_and_with_more_seeds(several, output, capsys):
    with pytest.raises(KeyboardInterrupt):
        several(FakeRun(interrupted_at=2), seeds=2)
    assert "2 of 4 runs have ended so far" in (output / "report.md").read_text()
    assert (output / "best").resolve().parts[-2:] == ("lr-3e-05", "seed-2")
    run = FakeRun()
    several(run, seeds=2)
    assert run.finished == ["lr-2e-05/seed-1", "lr-2e-05/seed-2"]
    assert capsys.readouterr().err.splitlines()[-1] == "run 4 of 4: lr-2e-05/seed-2"
    run = FakeRun()
    several(run, seeds=3)
    assert run.finished == ["lr-3e-05/seed-3", "lr-2e-05/seed-3"]
    assert len(outcome(output)["runs"]) == outcome(output)["runs_planned"] == 6
    assert "so far" not in (output / "report.md").read_text()


def test_a_run_that_diverges_is_reported_and_never_the_best(several, output):
    lines = several(FakeRun(diverging=(3e-5,)), seeds=2).splitlines()
    assert lines[2].split() == ["3e-05", "–", "–", "–", "2"]
    assert "Best median: learning rate 2e-05." in lines
    assert lines[-2] == "Diverged: lr-3e-05/seed-1, the training loss is nan at step 3."
    assert (output / "best").resolve().parts[-2:] == ("lr-2e-05", "seed-2")
    assert "lr-3e-05/seed-2" in (output / "report.md").read_text()
    assert len(outcome(output)["runs"]) == outcome(output)["runs_planned"] == 4
    assert outcome(output)["learning_rates"][0]["median"] is None


def test_a_study_in_which_every_run_diverges_ends_with_an_error(several, output):
    with pytest.raises(InputError):
        several(FakeRun(diverging=(3e-5, 2e-5)), seeds=1)
    assert not output.exists()


def test_folders_of_a_single_run_and_of_another_recipe_are_refused(several, output):
    several(FakeRun(), seeds=1)
    other = FakeRun(recipe=dataclasses.replace(RECIPE, batch_size=8))
    with pytest.raises(InputError):
        several(other, seeds=1)
    (output / "recipe.json").touch()
    with pytest.raises(InputError):
        several(FakeRun())
