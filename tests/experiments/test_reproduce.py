"""Small runs of the paper's tables: all arms, the existing tasks, reports and interruptions."""

import dataclasses
import json
import math
import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments import run
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.run import reproduce
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
    corpus = shutil.copytree(data, tmp_path / "data") / "corpus"
    recipe = (output / "recipe.json").read_text().replace(str(data), str(corpus.parent))
    (output / "recipe.json").write_text(recipe)
    (corpus / "other.txt").write_bytes((corpus / "text.txt").read_bytes())
    with pytest.raises(InputError):
        reproduce(SHORT, scale, data=corpus.parent, output=output)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table5", "table6", "c2", "labels"])
def test_each_experiment_runs(data, scale, name, tmp_path):
    """Runs all arms of table 5, and two arms of the others."""
    output, experiment = tmp_path / "run", EXPERIMENTS[name]
    if name != "table5":
        experiment = dataclasses.replace(experiment, arms=experiment.arms[:2])
    results = reproduce(experiment, scale, data=data, output=output)
    columns = {
        "table5": ["MNLI-m", "SQuAD", "NER"],
        "table6": ["MNLI-m"],
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
    if name == "table5":
        _check_arms_of_table5(output)


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
        path.parent.name: type(load_model(path)).__name__
        for path in (output / "pretrain").glob("*/model")
    }
    kinds = {"bert": "BertPretrainer", "masked-lm": "BertMaskedLM", "left-to-right": "BertMaskedLM"}
    assert pretrained == kinds


def test_invalid_task_rows_are_reported_before_the_pretraining(data, scale, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    dev = copy / "glue" / "MNLI" / "dev_matched.tsv"
    dev.write_text(dev.read_text().replace("neutral", "perhaps", 1))
    with pytest.raises(InputError):
        reproduce(TABLE5, scale, data=copy, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
