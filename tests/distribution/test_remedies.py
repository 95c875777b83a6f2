"""What a message about devices or workers tells the user to do succeeds."""

import json
import subprocess
import sys
import time

import keras
import pytest

from bert_keras.cli import main
from bert_keras.distribution.strategy import named_strategy
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier
from bert_keras.training.optimizer import BertAdamW
from tests.distribution.test_step import mirrored
from tests.distribution.workers import two_workers
from tests.runs.test_continue import write_records
from tests.training.test_loop import CONFIG, batches


def fit(strategy, make_optimizer):
    with strategy.scope():
        model = BertClassifier(CONFIG, num_labels=2)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(make_optimizer(), loss=loss)
        return model.fit(batches().take(1), shuffle=False, verbose=0)


def test_gradients_of_several_devices_are_clipped_by_our_optimizer():
    remedy = "on several devices use bert_keras.training.optimizer.BertAdamW"
    with pytest.raises(InputError, match=remedy):
        fit(mirrored(2), lambda: keras.optimizers.Adam(1e-3, clipnorm=1.0))
    assert fit(mirrored(2), lambda: BertAdamW(1e-3))


@pytest.mark.slow
def test_a_strategy_replaces_a_keras_distribution():
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
    remedy = (
        r"call keras.distribution.set_distribution\(None\) and train in the scope of "
        r'bert_keras.distribution.strategy.named_strategy\("mirrored"\)'
    )
    try:
        with pytest.raises(InputError, match=remedy):
            fit(named_strategy("mirrored"), BertAdamW)
    finally:
        keras.distribution.set_distribution(None)
    assert fit(named_strategy("mirrored"), BertAdamW)


@pytest.fixture
def pretraining(tmp_path):
    """The arguments of a pretraining by all workers, in which each checkpoint is a few steps."""
    settings = ["size=tiny", "batch_size=4", "num_steps=100", "num_warmup_steps=2"]
    return [
        *("pretrain", "demo", "--strategy", "multiworker"),
        *("--records", str(write_records(tmp_path / "records")), "--output", str(tmp_path / "run")),
        *("--set", *settings, "steps_per_log=10", "logs_per_checkpoint=1"),
    ]


@pytest.mark.slow
def test_workers_that_are_listed_start_and_all_continue_after_one_was_killed(
    pretraining, tmp_path, monkeypatch, capsys
):
    def start():
        command = [sys.executable, "-m", "bert_keras.cli", *pretraining]
        return [
            subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            for environment in two_workers()
        ]

    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="cannot use a parameter server: use multiworker instead"):
        named_strategy("parameter server")
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": ["127.0.0.1:3"]}
    for remedy in (
        'set it on every worker, with the index of the worker, as in {"cluster": {"worker": ["HOST',
        "list only workers and train with --strategy multiworker",
    ):
        assert main(pretraining) == 2
        assert remedy in capsys.readouterr().err
        config = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
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
