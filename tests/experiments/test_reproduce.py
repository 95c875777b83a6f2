"""Tables of the paper in miniature: arms, the tasks that are there, one page, and again."""

import dataclasses
import json
import math
import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments import run
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.plan import plan
from bert_keras.experiments.run import reproduce
from bert_keras.models import load_model
from bert_keras.training.loop import StopAfter

TABLE5 = EXPERIMENTS["table5"]
NO_NSP, BILSTM = TABLE5.arms[1], TABLE5.arms[3]
SHORT = dataclasses.replace(TABLE5, arms=(NO_NSP, BILSTM), columns=TABLE5.columns[:3])


def interrupted_at(patch, most):
    """The steps that are made from here on, the last one interrupted where there are so many."""
    steps = []

    def end(callback, batch, logs=None, end=StopAfter.on_train_batch_end):
        steps.append(batch)
        if len(steps) == most:
            raise KeyboardInterrupt
        end(callback, batch, logs)

    patch.setattr(StopAfter, "on_train_batch_end", end)
    return steps


def refused(*arguments, **named):
    raise AssertionError("what has ended is not done again")


@pytest.mark.slow
def test_a_table_goes_on_where_it_was_broken_off_and_is_not_done_twice(
    data, scale, tmp_path, monkeypatch
):
    """In a pretraining of 6 steps, with a state every 2, and in a fine-tuning of 2 epochs of 3."""
    output = tmp_path / "run"

    def break_off(step):
        with monkeypatch.context() as patch:
            interrupted_at(patch, step)
            with pytest.raises(KeyboardInterrupt):
                reproduce(SHORT, scale, data=data, output=output)

    break_off(6 + 3)
    for stage in ("train_vocabulary", "build"):
        monkeypatch.setattr(run, stage, refused)
    break_off(4 + 6 + 5)
    assert "1 of 2 cells have been filled so far" in (output / "report.md").read_text()
    with monkeypatch.context() as patch:
        steps = interrupted_at(patch, math.inf)
        results = reproduce(SHORT, scale, data=data, output=output)
    assert len(steps) == 3
    spent = json.loads((output / "costs.json").read_text())
    for stage in ("finetune", "study"):
        monkeypatch.setattr(run, stage, refused)
    assert reproduce(SHORT, scale, data=data, output=output) == results
    assert json.loads((output / "costs.json").read_text()) == spent

    assert results.scores.keys() == {("No NSP", "MNLI-m"), ("+ BiLSTM", "MNLI-m")}
    assert {"vocabulary", "records", "fine-tune MNLI-m", "pretrain left-to-right"} <= spent.keys()
    told = (output / "report.md").read_text()
    assert "QNLI is left out" in told and "MRPC is left out" in told
    curve = results.pretrainings["left-to-right"].curves["train", "loss/total"]
    assert [step for step, _ in curve] == [2, 4, 6]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table5", "table6", "c1", "c2"])
def test_every_task(data, scale, name, tmp_path):
    """Of table 5 by every arm, of c1 by those of one pretraining, of the others by two."""
    output, experiment = tmp_path / "run", EXPERIMENTS[name]
    num_arms = {"table5": None, "c1": 5}.get(name, 2)
    experiment = dataclasses.replace(experiment, arms=experiment.arms[:num_arms])
    results = reproduce(experiment, scale, data=data, output=output)
    there = {
        "table5": ["MNLI-m", "SQuAD"],
        "table6": ["MNLI-m"],
        "c1": ["MNLI-m"],
        "c2": ["MNLI-m", "NER fine-tuned", "NER features"],
    }[name]
    cells = {(arm.name, column) for arm in experiment.arms for column in there}
    assert set(results.scores) == cells
    assert all(len(score.seeds) == 1 for score in results.scores.values())
    assert all(0 <= value <= 100 for score in results.scores.values() for value in score.seeds)
    told = (output / "report.md").read_text()
    for arm in experiment.arms:
        assert f"| {arm.name} | " in told
        assert not arm.published or f" | {arm.published[0]:.1f} |" in told
    page = (output / "report.html").read_text()
    assert page.count("<svg") == 2 + len(there) + (name == "c1")
    numbers = json.loads((output / "results.json").read_text())
    assert len(numbers["cells"]) == len(cells) and numbers["kendall_tau"].keys() == set(there)
    check = {"table5": _check_arms_of_table5, "table6": _check_sizes, "c1": _check_steps}
    check.get(name, lambda output: None)(output)


def _check_arms_of_table5(output):
    """What makes an arm is there from pretraining to fine-tuning; all read the same records."""
    models = {}
    for arm in ("bert", "no-nsp", "ltr-no-nsp", "bilstm"):
        (best,) = (output / "finetune" / arm / "mnli-m").glob("best")
        config = load_model(best / "model").config
        models[arm] = (config.is_causal, config.num_lstm_layers)
    assert models == {
        "bert": (False, 0), "no-nsp": (False, 0), "ltr-no-nsp": (True, 0), "bilstm": (True, 1)
    }  # fmt: skip
    pretrained = {
        path.name: type(load_model(path / "32-6" / "model")).__name__
        for path in (output / "pretrain").iterdir()
    }
    assert pretrained == {
        "bert": "BertPretrainer", "masked-lm": "BertMaskedLM", "left-to-right": "BertMaskedLM"
    }  # fmt: skip


def _check_sizes(output):
    sizes = [
        (config.num_layers, config.hidden_size, config.num_heads)
        for path in (output / "pretrain").iterdir()
        for config in [load_model(path / "32-6" / "model").config]
    ]
    assert sorted(sizes) == [(1, 8, 2), (2, 8, 1)]
    assert "size=L-6_H-768_A-3 is size=L-2_H-8_A-1 here." in (output / "report.md").read_text()


def _check_steps(output):
    """One pretraining in parts: five models of it, the curve of all."""
    steps = sorted(path.name for path in (output / "pretrain" / "bert").iterdir())
    assert steps == ["32-1", "32-2", "32-4", "32-5", "32-6"]


@pytest.mark.slow
def test_an_arm_has_the_model_of_its_share_of_the_steps(data, scale, tmp_path):
    """Phases and parts of them begin from one another, with the optimizer's state."""
    (first,) = scale.phases
    phases = (
        dataclasses.replace(first, recipe=dataclasses.replace(first.recipe, last_step=4)),
        dataclasses.replace(first, max_length=48),
    )
    scale = dataclasses.replace(scale, phases=phases)
    arm = dataclasses.replace(NO_NSP, name="a third of it", share=1 / 3, published=())
    table = dataclasses.replace(SHORT, columns=SHORT.columns[:1], arms=(arm,))
    results = reproduce(table, scale, data=data, output=tmp_path / "run")
    curve = results.pretrainings["masked-lm"].curves["train", "loss/total"]
    assert [step for step, _ in curve] == [2, 4, 6]
    parts = {path.name: path for path in (tmp_path / "run" / "pretrain" / "masked-lm").iterdir()}
    assert parts.keys() == {"32-2", "32-4", "48-6"}
    (tuned,) = (tmp_path / "run").glob("finetune/a-third-of-it/mnli-m/lr-*/seed-1/recipe.json")
    assert json.loads(tuned.read_text())["pretrained"] == str(parts["32-2"] / "model")


@pytest.mark.parametrize("is_timed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_plan_tells_arms_steps_and_time(data, scale, monkeypatch, is_timed):
    """Of real steps, which take long to trace, and of steps that are said to take two seconds."""

    def two_seconds(model, batches):
        assert model.optimizer is not None and "input_ids" in next(iter(batches))[0]
        return [2.0]

    if not is_timed:
        monkeypatch.setattr("bert_keras.experiments.plan.step_seconds", two_seconds)
    told = plan(SHORT, scale, data=data)
    lines = told.splitlines()
    assert "No NSP, + BiLSTM" in lines[0] and "QNLI is left out" in told
    for name in ("masked-lm", "left-to-right"):
        assert any(line.startswith(f"pretrain {name}, length 32 ") for line in lines)
    no_nsp, bilstm = (line for line in lines if line.startswith("fine-tune MNLI-m, L-1_H-8_A-2, "))
    assert "A-2, runs: 1 " in no_nsp and " 6 " in no_nsp  # 24 rows in batches of 8, 2 epochs
    assert "A-2, num_lstm_layers=1, runs: 1 " in bilstm
    total = "about 0:00:48 (hours" if not is_timed else "(hours"
    assert f"{total}:minutes:seconds) in all" in told


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("nowhere", r"nowhere is not a folder; expected one with corpus/\*\.txt and folders such"),
        ("glue", r"glue has no corpus/\*\.txt to pretrain on; put UTF-8 text there"),
        ("corpus", "corpus holds no task of Table 5: what the pretraining tasks give: MNLI-m is"),
    ],
)
def test_data_that_cannot_do_is_refused_before_anything_is_written(
    data, scale, tmp_path, kept, said
):
    with pytest.raises(InputError, match=said):
        reproduce(EXPERIMENTS["table5"], scale, data=data / kept, output=tmp_path / "run")
    with pytest.raises(InputError, match=said):
        plan(EXPERIMENTS["table5"], scale, data=data / kept)
    assert not (tmp_path / "run").exists()


def test_rows_that_a_task_cannot_read_are_told_before_the_pretraining(data, scale, tmp_path):
    mine = shutil.copytree(data, tmp_path / "data")
    dev = mine / "glue" / "MNLI" / "dev_matched.tsv"
    dev.write_text(dev.read_text().replace("neutral", "perhaps", 1))
    with pytest.raises(InputError, match=r"dev_matched.tsv, line 2 has the label 'perhaps'; known"):
        reproduce(TABLE5, scale, data=mine, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
