"""A table of the paper in miniature: every arm, every task that is there, one page, and again."""

import dataclasses
import json

import pytest

from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.reproduce import run
from bert_keras.reproduce.experiments import EXPERIMENTS
from bert_keras.reproduce.plan import plan
from bert_keras.reproduce.run import reproduce


def refused(*arguments, **named):
    raise AssertionError("what has ended is not done again")


def interrupted_at(number, function):
    """`function`, interrupted when it is called for the time of this number."""
    calls = []

    def call(*arguments, **named):
        calls.append(named)
        if len(calls) == number:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return call


def test_a_table_is_interrupted_and_goes_on_and_is_not_done_twice(
    data, scale, experiment, tmp_path, monkeypatch, capsys
):
    output, given = tmp_path / "run", {"data": data, "output": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(run, "finetune", interrupted_at(6, run.finetune))
        with pytest.raises(KeyboardInterrupt):
            reproduce(experiment, scale, **given)
    assert "have been filled so far" in (output / "report.md").read_text()
    with monkeypatch.context() as patch:
        for stage in ("train_vocabulary", "build"):
            patch.setattr(run, stage, refused)
        patch.setattr(run, "pretrain", _only_ended(run.pretrain))
        results = reproduce(experiment, scale, **given)
    spent = json.loads((output / "costs.json").read_text())
    with monkeypatch.context() as patch:
        for stage in ("finetune", "study", "train_vocabulary", "build"):
            patch.setattr(run, stage, refused)
        assert reproduce(experiment, scale, **given) == results
    assert json.loads((output / "costs.json").read_text()) == spent

    there = {"table5": ["MNLI-m", "SQuAD"], "c2": ["MNLI-m", "NER fine-tuned", "NER features"]}
    there = there[experiment.name]
    cells = {(arm.name, column) for arm in experiment.arms for column in there}
    assert set(results.scores) == cells
    assert all(len(score.seeds) == 2 for score in results.scores.values())
    assert all(0 <= value <= 100 for score in results.scores.values() for value in score.seeds)
    assert {"vocabulary", "records", "fine-tune MNLI-m"} <= set(spent)
    told = (output / "report.md").read_text()
    for arm in experiment.arms:
        assert f"| {arm.name} | " in told and f" | {arm.published[0]:.1f} |" in told
    page = (output / "report.html").read_text()
    assert page.count("<svg") == 2 + len(there)
    numbers = json.loads((output / "results.json").read_text())
    assert len(numbers["cells"]) == len(cells) and numbers["kendall_tau"].keys() == set(there)
    if experiment.name == "table5":
        assert "SST-2 is left out" in told and "MRPC is left out" in told
        _check_arms_of_table5(output)


def _only_ended(function):
    def call(recipe, **named):
        assert (named["output"] / "scores.json").is_file()
        return function(recipe, **named)

    return call


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
        path.name: type(load_model(path / "32" / "model")).__name__
        for path in (output / "pretrain").iterdir()
    }
    assert pretrained == {
        "bert": "BertPretrainer", "masked-lm": "BertMaskedLM", "left-to-right": "BertMaskedLM"
    }  # fmt: skip


def test_phases_begin_from_one_another(data, scale, tmp_path):
    table = dataclasses.replace(
        EXPERIMENTS["table5"],
        columns=EXPERIMENTS["table5"].columns[:1],
        arms=EXPERIMENTS["table5"].arms[2:3],
    )
    (first,) = scale.phases
    phases = (
        dataclasses.replace(first, recipe=dataclasses.replace(first.recipe, last_step=4)),
        dataclasses.replace(first, max_length=48),
    )
    results = reproduce(
        table,
        dataclasses.replace(scale, phases=phases, num_seeds=1),
        data=data,
        output=tmp_path / "run",
    )
    curve = results.pretrainings["left-to-right"].curves["train", "loss/total"]
    assert [step for step, _ in curve] == [2, 4, 6]
    assert (tmp_path / "run" / "records-48").is_dir()


def test_a_plan_tells_arms_steps_and_time_and_leaves_nothing(data, scale, experiment, capsys):
    told = plan(experiment, scale, data=data)
    for arm in experiment.arms:
        assert arm.name in told
    lines = {line[:24].strip(): line for line in told.splitlines()}
    assert any("pretrain" in line and " 6 " in line for line in lines.values())
    mnli = next(line for line in told.splitlines() if line.startswith("fine-tune MNLI-m, "))
    runs = 6 if experiment.name == "table5" else 12
    assert f"{runs} runs" in mnli and f" {3 * runs} " in mnli  # 24 rows in batches of 8
    assert "(hours:minutes:seconds) in all" in told


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
