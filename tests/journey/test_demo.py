"""The demo with few steps: every stage, and the same results for the same seed."""

import contextlib
import dataclasses
import io
import json
import re
import shlex
from pydoc_data.topics import topics
from urllib.request import urlopen

import pytest

from bert_keras.cli import demo as demo_module
from bert_keras.cli import main
from bert_keras.families import presets
from bert_keras.models.loading import load_model
from bert_keras.runs.recipes import FINETUNE, PRETRAIN
from bert_keras.serving.server import running_server
from bert_keras.training.tensorboard import read_curves
from tfrecords_tools.cli import main as bert_tfrecords

NUM_TOPICS = 4
MODELS = ("pretrain/model/weights.safetensors", "finetune/model/weights.safetensors")


def printed_by_demo(*options) -> tuple[str, str]:
    """Runs the demo; returns what it writes to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(["demo", *map(str, options)]) == 0
    return out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder of a demo with few steps of a small model on four topics of medium length, and
    what it prints. The next demo is as short."""
    folder, size = tmp_path_factory.mktemp("demo"), PRETRAIN["demo"].size
    small = dataclasses.replace(presets()[size], num_layers=1, hidden_size=32, num_heads=1)
    steps = {"num_steps": 4, "num_warmup_steps": 2, "steps_per_log": 2}
    recipe = dataclasses.replace(FINETUNE["demo"][""], num_epochs=1)
    by_length = sorted(topics, key=lambda name: len(topics[name]))
    chosen = {name: topics[name] for name in by_length[-12:][:NUM_TOPICS]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets(), size, small)
        patch.setitem(PRETRAIN, "demo", dataclasses.replace(PRETRAIN["demo"], **steps))
        patch.setitem(FINETUNE, "demo", {"": recipe})
        patch.setattr(demo_module, "VOCABULARY_SIZE", 500)
        patch.setattr("pydoc_data.topics.topics", chosen)
        yield folder, *printed_by_demo("--output", folder)


@pytest.mark.slow
def test_the_demo_runs_every_stage(demo, capsys):
    folder, out, _ = demo
    first = folder / "1"
    assert (first / "corpus.txt").stat().st_size > 20_000
    paths = ("vocab.txt", "records/manifest.json", "saved_models/demo/1/saved_model.pb")
    assert all((first / path).exists() for path in (*MODELS, *paths))
    scores = json.loads((first / "pretrain" / "scores.json").read_text())
    for name in ("held_out", "copying", "unigram"):
        assert f"{scores[f'{name}_masked_lm_loss']:.3f}" in out
    assert f"bert-keras serve {first}/saved_models/demo --port 8501" in out
    answer = json.loads(out.split("demo:predict ")[1].split("\n", 1)[1].split("\n\n")[0])
    assert answer["label"] in answer["labels"] and len(answer["probabilities"]) == 4
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)

    # The commands that the demo prints
    show, model = re.search(r"bert-tfrecords (show \S+)", out), first / "finetune" / "model"
    assert bert_tfrecords(show[1].split()) == 0
    assert load_model(model).predict([answer["label"]], verbose=0)[0]["label"]
    *_, payload, url = shlex.split(re.search("curl .*", out)[0])
    with running_server(first / "saved_models" / "demo") as address:
        response = urlopen(url.replace("http://localhost:8501", address), payload.encode())
        assert json.load(response)["predictions"][0]["labels"] == answer["labels"]
    assert read_curves(re.search(r"tensorboard --logdir (\S+)", out)[1])


@pytest.mark.slow
def test_the_same_corpus_gives_the_same_results(demo):
    folder, first_out, _ = demo
    first, second = folder / "1", folder / "2"
    out, err = printed_by_demo("--corpus", first / "corpus.txt", "--output", folder)
    assert not (second / "corpus.txt").exists()
    assert "read corpus" not in err
    assert first_out.replace(str(first), "") == out.replace(str(second), "")
    for path in (*MODELS, "vocab.txt", "pretrain/scores.json", "finetune/scores.json"):
        assert (first / path).read_bytes() == (second / path).read_bytes(), path
