"""The logs of a pretraining in TensorBoard: its HTTP answers."""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest

from tests.runs.test_runs import pretrained, records  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def board(pretrained):  # noqa: F811
    """The address of a TensorBoard that has read the run."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(pretrained[0] / "logs")]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r" at (http://127\.0\.0\.1:\d+)/", line):
                break
        else:
            raise AssertionError("".join(lines))
        end = time.monotonic() + 60
        while "final" not in get(match[1], "runs"):
            assert time.monotonic() < end, "TensorBoard has not read the run"
            time.sleep(0.3)
        yield match[1]
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.stderr.close()


def get(address: str, path: str, post: dict | None = None, **query) -> object:
    url = f"{address}/data/{path}?{urllib.parse.urlencode(query)}"
    data = None if post is None else json.dumps(post).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as response:
        body = response.read()
        return json.loads(body) if "json" in response.headers["Content-Type"] else body


def test_scalars(board):
    tags = get(board, "plugin/scalars/tags")
    for layer in ("embeddings", "layer_00", "layer_01", "pooler", "heads"):
        assert {f"gradient_norm/{layer}", f"weight_norm/{layer}"} <= set(tags["train"])
    for tag in ("loss/total", "optimizer/learning_rate", "speed/model_flops_utilisation"):
        points = get(board, "plugin/scalars/scalars", run="train", tag=tag)
        assert [step for _, step, _ in points] == [2, 4, 6, 8]
        assert all(np.isfinite(value) for *_, value in points)
    assert "loss/masked_lm" in tags["held_out"]


def test_hyperparameters_and_final_scores(board, pretrained):  # noqa: F811
    request = {"startIndex": 0, "sliceSize": 9, "allowedStatuses": ["STATUS_UNKNOWN"]}
    [group] = get(board, "plugin/hparams/session_groups", post=request)["sessionGroups"]
    assert group["hparams"]["size"] == "tiny" and group["hparams"]["num_steps"] == 8
    scores = {each["name"]["tag"]: each["value"] for each in group["metricValues"]}
    loss = pretrained[1]["held_out_masked_lm_loss"]
    assert scores["final/held_out_masked_lm_loss"] == pytest.approx(loss)


def test_samples(board):
    assert get(board, "plugin/text/tags")["samples"] == ["masked_lm/samples"]
    samples = get(board, "plugin/text/text", run="samples", tag="masked_lm/samples")
    assert samples[-1]["step"] == 8
    assert samples[-1]["text"].count("<td>") == 4
    assert re.search(r"&#91;\S+ → \S+ 0\.\d\d&#93;", samples[-1]["text"])


def test_projector(board):
    assert get(board, "plugin/projector/runs") == ["final"]
    [table] = get(board, "plugin/projector/info", run="final")["embeddings"]
    query = {"run": "final", "name": table["tensorName"]}
    words = get(board, "plugin/projector/metadata", **query).decode().splitlines()
    vectors = np.frombuffer(get(board, "plugin/projector/tensor", **query), "float32")
    assert {"red", "blue", "stone"} <= set(words)
    assert vectors.reshape(len(words), 128).std() == pytest.approx(0.08, rel=0.3)
