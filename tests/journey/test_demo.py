"""The whole way once, shortened: text in, a served answer out, the same for a seed."""

import dataclasses
import json
import sys
from pydoc_data.topics import topics

import pytest

from bert_keras import demo as demo_module
from bert_keras.cli import main
from bert_keras.runs.recipes import FINETUNE, PRETRAIN

NUM_TOPICS = 4  # the longest of the language reference


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorter = dataclasses.replace(
        PRETRAIN["demo"], num_steps=20, num_warmup_steps=5, steps_per_log=10
    )
    monkeypatch.setitem(PRETRAIN, "demo", shorter)
    recipe = dataclasses.replace(FINETUNE["demo"][""], num_epochs=1)
    monkeypatch.setitem(FINETUNE, "demo", {"": recipe})
    monkeypatch.setattr(demo_module, "VOCABULARY_SIZE", 500)
    longest = sorted(topics, key=lambda name: len(topics[name]))[-NUM_TOPICS:]
    monkeypatch.setattr("pydoc_data.topics.topics", {name: topics[name] for name in longest})


def test_the_demo_runs_every_stage_and_repeats_itself_with_a_corpus_of_ones_own(tmp_path, capsys):
    first, second = (tmp_path / "1", tmp_path / "2")
    told = []
    for own in ([], ["--corpus", str(first / "corpus.txt")]):
        assert main(["demo", *own, "--output", str(tmp_path)]) == 0
        told.append(capsys.readouterr())
    assert (first / "corpus.txt").stat().st_size > 100_000
    assert not (second / "corpus.txt").exists()
    assert "read corpus" not in told[1].err
    for folder in (first, second):
        for left in (
            "vocab.txt",
            "records/manifest.json",
            "pretrain/model/weights.safetensors",
            "pretrain/logs/train",
            "finetune/model/weights.safetensors",
            "saved_models/demo/1/saved_model.pb",
        ):
            assert (folder / left).exists(), left
    for same in (
        "vocab.txt",
        "records/train-00000-of-00004.tfrecord",
        "pretrain/scores.json",
        "pretrain/model/weights.safetensors",
        "finetune/scores.json",
        "finetune/model/weights.safetensors",
    ):
        assert (first / same).read_bytes() == (second / same).read_bytes(), same

    out = told[0].out
    assert f"records of {NUM_TOPICS} documents" in out
    assert out.replace(str(first), "") == told[1].out.replace(str(second), "")
    assert "held-out sentences right; always saying the most frequent label:" in out
    assert "POST /v1/models/demo:predict" in out
    assert f"bert-keras serve {first}/saved_models/demo --port 8501" in out
    assert 'curl -d \'{"instances": [' in out
    assert f"tensorboard --logdir {first}" in out
    answer = json.loads(out.split("demo:predict ")[1].split("\n", 1)[1].split("\n\n")[0])
    assert answer["label"] in answer["labels"] and len(answer["probabilities"]) == 4
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)
    for stage in (
        "read corpus",
        "count words",
        "learn pieces",
        "tokenize",
        "find train",
        "write train",
        "pretrain",
        "fine-tune",
        "export",
        "ask the server",
    ):
        assert f"{stage:<24}: " in told[0].err


def test_a_python_without_the_reference_is_told(tmp_path, monkeypatch):
    from bert_keras.errors import InputError

    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(InputError, match="give text files with --corpus"):
        demo_module.demo(output=tmp_path)
