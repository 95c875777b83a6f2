"""What a message of the command line `bert-keras` tells the user to do succeeds."""

import json
import re

import pytest

from bert_keras.cli import main
from bert_keras.exporting import saved_model
from tests.exporting.variants.fine_tuned import VOCABULARY, fine_tuned
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings

FINETUNE = (
    "finetune classification --from {}/model --train {}/dev.tsv --dev {}/dev.tsv "
    "--output {}/NEW --recipe demo --set num_epochs=1 max_length=16"
)
STUDY = f"{FINETUNE} --seeds 2"
SIZES = "--set size=L-1_H-8_A-1 batch_size=2 num_steps=2 num_warmup_steps=1"
PRETRAIN = f"pretrain demo --records {{}}/records {SIZES}"
REPRODUCE = "reproduce c2 --data {}"
EXPORT = "export {}/model x --to {}/saved"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A fine-tuned classifier with its examples, and records."""
    folder = tmp_path_factory.mktemp("remedies")
    fine_tuned("classification", folder)
    (folder / "corpus.txt").write_text("a good film\n\nbob met anna\n" * 9, "utf-8")
    settings = BuildSettings(max_length=8, max_predictions=1, shards=1)
    options = {"vocabulary": VOCABULARY, "output": folder / "records", "settings": settings}
    build([folder / "corpus.txt"], **options)
    return folder


@pytest.fixture
def run(root, monkeypatch):
    """Runs a command and returns its exit code; the stages that other tests run are replaced."""
    monkeypatch.setattr(saved_model, "run_in_fresh_process", lambda *_: [])
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("bert_keras.experiments.plan.plan", lambda *_, **__: "the runs")
    monkeypatch.setattr("bert_keras.experiments.run.reproduce", lambda *_, **__: None)
    return lambda command: main(command.replace("{}", str(root)).split())


def case(command, remedy, corrected):
    trains = "finetune" in corrected or "pretrain" in corrected
    return pytest.param(command, remedy, corrected, marks=[pytest.mark.slow] if trains else [])


@pytest.mark.parametrize(
    ("command", "remedy", "corrected"),
    [
        case(PRETRAIN, "is missing; name a new folder or use", f"{PRETRAIN} --output {{}}/run"),
        case(PRETRAIN, "name a new folder or use --dry-run", f"{PRETRAIN} --dry-run"),
        case(REPRODUCE, "; name a new folder or use", f"{REPRODUCE} --output {{}}/c2"),
        case(REPRODUCE, "or use --dry-run", f"{REPRODUCE} --dry-run"),
        case(
            FINETUNE.replace("--train {}/dev.tsv", "--data {}"),
            "--dev cannot be used with --data; use --train and --dev instead",
            FINETUNE.replace("NEW", "files"),
        ),
        case(
            FINETUNE.replace("--dev {}/dev.tsv", ""),
            "--train requires --dev, a file of held-out examples",
            FINETUNE.replace("NEW", "held-out"),
        ),
        case(
            f"{STUDY} --set seed=3",
            "--set seed has no effect on a study, which sets it; omit it",
            STUDY.replace("NEW", "study"),
        ),
    ],
)
def test_the_corrected_command_succeeds(run, refusal, command, remedy, corrected):
    assert remedy in refusal(command)
    assert run(corrected) == 0


@pytest.mark.slow
def test_a_study_runs_without_workers(run, refusal, monkeypatch):
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    command = STUDY.replace("NEW", "alone") + " --strategy one"
    with monkeypatch.context() as patch:
        patch.setenv("TF_CONFIG", json.dumps(workers))
        assert "on one machine; unset TF_CONFIG" in refusal(command)
    assert run(command) == 0


def test_an_exported_model_is_served_by_the_printed_command(run, refusal, capsys):
    remedy = "--accept-loss 3.0 has no effect without --variant; leave it out"
    assert remedy in refusal(f"{EXPORT} --accept-loss 3")
    assert run(EXPORT) == 0
    (command,) = re.findall("serve it:  bert-keras (.*)", capsys.readouterr().out)
    assert run(command.replace("8501", "0")) == 0
