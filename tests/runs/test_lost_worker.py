"""One of two workers is killed, and both are started again."""

import subprocess
import sys
import time

import pytest

from tests.distribution.workers import two_workers
from tests.runs.test_continue import write_records


@pytest.mark.slow
def test_the_other_worker_ends_in_one_sentence_and_the_same_command_continues(tmp_path):
    settings = ["size=tiny", "batch_size=4", "num_steps=100", "num_warmup_steps=2"]
    command = [
        *(sys.executable, "-m", "bert_keras.cli", "pretrain", "demo", "--strategy", "multiworker"),
        *("--records", str(write_records(tmp_path / "records")), "--output", str(tmp_path / "run")),
        *("--set", *settings, "steps_per_log=10", "logs_per_checkpoint=1"),
    ]

    def start():
        return [
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            for environment in two_workers()
        ]

    chief, killed = start()
    while not [*(tmp_path / "run").glob("checkpoints/step-*.index")]:
        assert chief.poll() is None
        time.sleep(0.1)
    killed.kill()
    *_, last = chief.communicate(timeout=300)[1].splitlines()
    assert last == (
        "bert-keras pretrain: interrupted; the connection to worker 1 was lost; start all workers "
        "again with the same command, which continues from the newest saved state"
    )
    assert chief.returncode == 130
    killed.communicate()
    again = start()
    assert [(process.communicate(timeout=300), process.returncode)[1] for process in again] == [
        0,
        0,
    ]
    assert (tmp_path / "run" / "scores.json").is_file()
