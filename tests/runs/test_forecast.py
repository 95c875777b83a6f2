"""Estimates of a run, and arguments that are checked before it starts."""

import pytest

from bert_keras.cli import main
from tests.runs.test_runs import records  # noqa: F401


@pytest.mark.slow
def test_a_dry_run_prints_estimates_and_writes_nothing(records, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    command = ["pretrain", "demo", "--records", str(records), "--set", "size=tiny", "num_steps=500"]
    assert main([*command, "--dry-run"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["model"].endswith("parameters, BertPretrainer")
    assert rows["records"].startswith("2 files of 32 positions and 5 predictions")
    assert rows["steps"] == "500 of 16 sequences on 1 replica"
    assert "million in 8,000 sequences" in rows["tokens"]
    assert {"step", "time", "memory", "disk"} < set(rows)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("steps", ["20", "5:2", "0:3", "a:b"])
def test_wrong_steps_to_profile_are_refused(records, tmp_path, steps, capsys):  # noqa: F811
    command = ["pretrain", "demo", "--records", str(records), "--output", str(tmp_path / "run")]
    assert main([*command, "--profile", steps]) == 2
    assert f"the steps to profile are {steps!r}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
