"""Small runs of the paper's tables: all arms, the existing tasks, reports and interruptions."""

import dataclasses
import hashlib
import json
import math
import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments import run
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.run import plan, reproduce
from bert_keras.models.loading import load_model
from bert_keras.training.loop import StopAfter

TABLE5 = EXPERIMENTS["table5"]
NO_NSP, BILSTM = TABLE5.arms[1], TABLE5.arms[3]
SHORT = dataclasses.replace(TABLE5, arms=(NO_NSP, BILSTM), columns=TABLE5.columns[:3])


def interrupted_at(patch, max_steps):
    """Returns a list that collects the steps; step number `max_steps` is interrupted."""
    steps = []

    def end(callback, batch, logs=None, end=StopAfter.on_train_batch_end):
        steps.append(batch)
        if len(steps) == max_steps:
            raise KeyboardInterrupt
        end(callback, batch, logs)

    patch.setattr(StopAfter, "on_train_batch_end", end)
    return steps


def refused(*arguments, **named):
    raise AssertionError("a finished stage ran again")


@pytest.mark.slow
def test_an_interrupted_table_continues_and_a_finished_one_does_not_run_again(
    data, scale, tmp_path, monkeypatch
):
    """Interrupts pretrainings of 6 steps with a state every 2, and fine-tunings of 6."""
    output = tmp_path / "run"

    def interrupt(step):
        with monkeypatch.context() as patch:
            interrupted_at(patch, step)
            with pytest.raises(KeyboardInterrupt):
                reproduce(SHORT, scale, data=data, output=output)

    interrupt(6 + 3)
    for stage in ("train_vocabulary", "build"):
        monkeypatch.setattr(run, stage, refused)
    interrupt(4 + 6 + 5)
    assert "1 of 2 cells have a score so far" in (output / "report.md").read_text()
    with monkeypatch.context() as patch:
        steps = interrupted_at(patch, math.inf)
        results = reproduce(SHORT, scale, data=data, output=output)
    assert len(steps) == 3
    for stage in ("pretrain", "finetune"):
        monkeypatch.setattr(run, stage, refused)
    assert reproduce(SHORT, scale, data=data, output=output) == results
    assert results.scores.keys() == {(arm, "MNLI-m") for arm in ("No NSP", "+ BiLSTM")}
    report = (output / "report.md").read_text()
    assert "QNLI is omitted" in report and "MRPC is omitted" in report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table5", "table6", "c1", "c2", "labels"])
def test_each_experiment_runs(data, scale, name, tmp_path):
    """Runs all arms of table 5, the arms of one pretraining of c1, and two arms of the others."""
    output, experiment = tmp_path / "run", EXPERIMENTS[name]
    arms = {"table5": slice(None), "c1": slice(5, 8)}.get(name, slice(2))
    experiment = dataclasses.replace(experiment, arms=experiment.arms[arms])
    results = reproduce(experiment, scale, data=data, output=output)
    columns = {
        "table5": ["MNLI-m", "SQuAD", "NER"],
        "table6": ["MNLI-m"],
        "c1": ["MNLI-m"],
        "c2": ["MNLI-m", "NER fine-tuned", "NER features"],
        "labels": ["MNLI-m", "NER"],
    }[name]
    cells = {(arm.name, column) for arm in experiment.arms for column in columns}
    assert set(results.scores) == cells
    assert all(len(score.seeds) == 1 for score in results.scores.values())
    assert all(0 <= value <= 100 for score in results.scores.values() for value in score.seeds)
    report = (output / "report.md").read_text()
    for arm in experiment.arms:
        assert f"| {arm.name} | " in report
        assert not arm.published or f" | {arm.published[0]:.1f} |" in report
    assert name != "table6" or "size=L-2_H-8_A-1 replaces size=L-6_H-768_A-3." in report
    values = json.loads((output / "results.json").read_text())
    assert len(values["cells"]) == len(cells)
    check = {"table5": _check_arms_of_table5, "c1": _check_steps}
    check.get(name, lambda output: None)(output)


def _check_arms_of_table5(output):
    """The changes of each arm apply to its pretraining and its fine-tuning."""
    models = {}
    for arm in ("bert", "no-nsp", "ltr-no-nsp", "bilstm"):
        (best,) = (output / "finetune" / arm / "mnli-m").glob("best")
        config = load_model(best / "model").config
        models[arm] = (config.is_causal, config.num_lstm_layers)
    assert models == {
        "bert": (False, 0), "no-nsp": (False, 0), "ltr-no-nsp": (True, 0), "bilstm": (True, 1),
    }  # fmt: skip
    pretrained = {
        path.parents[1].name: (path.parent.name, type(load_model(path)).__name__)
        for path in (output / "pretrain").glob("*/*/model")
    }
    assert pretrained == {
        "bert": ("32-6", "BertPretrainer"),
        "masked-lm": ("32-6", "BertMaskedLM"),
        "left-to-right": ("32-6", "BertMaskedLM"),
    }  # fmt: skip


def _check_steps(output):
    """One pretraining in three parts saves a model after each."""
    steps = sorted(path.name for path in (output / "pretrain" / "bert").iterdir())
    assert steps == ["32-4", "32-5", "32-6"]


@pytest.mark.slow
def test_an_arm_starts_from_the_model_at_its_fraction_of_the_steps(data, scale, tmp_path):
    """Each phase and each part of a phase starts from the preceding one."""
    (first,) = scale.phases
    phases = (
        dataclasses.replace(first, recipe=dataclasses.replace(first.recipe, last_step=4)),
        dataclasses.replace(first, max_length=48),
    )
    scale = dataclasses.replace(scale, phases=phases)
    arm = dataclasses.replace(NO_NSP, name="a third of it", step_fraction=1 / 3, published=())
    table = dataclasses.replace(SHORT, columns=SHORT.columns[:1], arms=(arm,))
    reproduce(table, scale, data=data, output=tmp_path / "run")
    parts = {path.name: path for path in (tmp_path / "run" / "pretrain" / "masked-lm").iterdir()}
    assert parts.keys() == {"32-2", "32-4", "48-6"}
    (tuned,) = (tmp_path / "run").glob("finetune/a-third-of-it/mnli-m/lr-*/seed-1/recipe.json")
    assert json.loads(tuned.read_text())["pretrained"] == str(parts["32-2"] / "model")


def test_a_plan_lists_arms_steps_and_runs(data, scale):
    text = plan(SHORT, scale, data=data)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "No NSP, + BiLSTM" in lines[0] and "QNLI is omitted" in text
    assert "pretrain masked-lm, size L-1_H-8_A-2, length 32 to step 6" in lines
    assert "fine-tune MNLI-m, 2 epochs 2 runs" in lines


def test_data_without_tasks_are_refused_before_anything_is_written(data, scale, tmp_path):
    message = "corpus contains no task of Table 5: effect of the pretraining tasks: MNLI-m"
    with pytest.raises(InputError, match=message):
        reproduce(EXPERIMENTS["table5"], scale, data=data / "corpus", output=tmp_path / "run")
    with pytest.raises(InputError, match=message):
        plan(EXPERIMENTS["table5"], scale, data=data / "corpus")
    assert not (tmp_path / "run").exists()


def test_an_experiment_continues_with_its_corpus_alone(data, scale, tmp_path, monkeypatch):
    """A task may be added."""

    def fill(results, runs, *, files):
        (runs.folder / "vocab.txt").touch()

    monkeypatch.setattr(run, "_fill", fill)
    copy, output = shutil.copytree(data, tmp_path / "data"), tmp_path / "run"
    text, other = copy / "corpus" / "text.txt", copy / "corpus" / "other.txt"
    content = text.read_bytes()
    shutil.move(copy / "squad", tmp_path / "squad")
    reproduce(TABLE5, scale, data=copy, output=output)
    shutil.move(tmp_path / "squad", copy / "squad")
    reproduce(TABLE5, scale, data=copy, output=output)
    text.write_bytes(content[::-1])
    other.write_bytes(content)
    with pytest.raises(InputError, match="the file corpus/other"):
        reproduce(TABLE5, scale, data=copy, output=output)
    recipe = json.loads((output / "recipe.json").read_text())
    assert recipe["files"] == {"corpus/text.txt": hashlib.sha256(content).hexdigest()}


def test_invalid_task_rows_are_reported_before_the_pretraining(data, scale, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    dev = copy / "glue" / "MNLI" / "dev_matched.tsv"
    dev.write_text(dev.read_text().replace("neutral", "perhaps", 1))
    with pytest.raises(InputError, match=r"dev_matched.tsv, line 2 has the unknown label"):
        reproduce(TABLE5, scale, data=copy, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
