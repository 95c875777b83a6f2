"""The server starts, finishes its requests when it stops, and frees its port."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.serving.client import Client
from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server, serve
from bert_keras.serving.version_folder import METADATA
from tests.factories import wait_for
from tests.serving.conftest import save, served_by_command, spec


def test_it_stops_cleanly_and_frees_the_port(models):
    threads = threading.active_count()
    with running_server(models / "half_plus_two") as url:
        port = urlsplit(url).port
        with pytest.raises(InputError):
            serve(models / "half_plus_two", port=port)
    assert threading.active_count() <= threads + 1  # a worker of the thread pool may still idle
    with running_server(models / "half_plus_two", port=port) as url:
        assert urlsplit(url).port == port


PROGRAM = """
import os, sys, uvicorn
from bert_keras.cli import main
kept = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
uvicorn.Server.run = lambda *_, **__: print(os.getenv(kept), {"keras", "torch"} & {*sys.modules})
for versions in (sys.argv[2:4], sys.argv[3:5]):
    main(["serve", sys.argv[1], "--versions", *versions, "--port", "0"])
"""


def product_model(folder, factor, variant):
    """A SavedModel that multiplies rows of bfloat16 by a kernel; its metadata names a variant."""
    kernel = tf.Variable(tf.fill([64, 1], tf.cast(factor, "bfloat16")))

    def product(x):
        return {"y": tf.cast(tf.cast(x, "bfloat16") @ kernel, "float32")}

    save(folder, {"serving_default": (product, spec("x", tf.float32, None, 64))}, kernel)
    (folder / METADATA).parent.mkdir()
    (folder / METADATA).write_text(json.dumps({"variant": {"name": variant}}))


def test_it_needs_no_keras_and_kernels_keep_their_layout_if_all_are_bfloat16(tmp_path):
    for version, variant in (1, "bfloat16"), (2, "bfloat16"), (3, "int8"):
        product_model(tmp_path / "name" / str(version), version, variant)
    program = [sys.executable, "-c", PROGRAM, tmp_path / "name", *"321"]
    ran = subprocess.run(program, capture_output=True, text=True)
    values = [line for line in ran.stdout.splitlines() if line.endswith(" set()")]
    assert values == ["None set()", "1 set()"], ran.stderr


@pytest.mark.slow
def test_a_new_version_has_its_own_kernels(tmp_path):
    product_model(tmp_path / "name" / "1", 1, "bfloat16")
    rows = [[1.0] * 64]
    with (
        served_by_command(tmp_path / "name") as (_, url),
        Client(f"{url}/v1/models/name") as client,
    ):
        assert client.predict(rows) == [[64.0]]
        product_model(tmp_path / "new", 2, "bfloat16")
        os.rename(tmp_path / "new", tmp_path / "name" / "2")
        wait_for(lambda: client.predict(rows) != [[64.0]], seconds=60)
        assert client.predict(rows) == [[128.0]]


@pytest.mark.slow
def test_it_finishes_running_requests_and_exits_quietly_on_a_signal(models, send):
    def send_request(steps):
        body = f'{{"signature_name": "slow", "instances": [{steps}]}}'
        return send(url, "POST", "/v1/models/odd:predict", body)

    arguments = (models / "odd", "--versions", 1, "--timeout", 20)
    with served_by_command(*arguments) as (process, url), ThreadPoolExecutor(1) as pool:
        start = time.perf_counter()
        assert send_request(20_000).json() == {"predictions": [20_000]}
        steps = round(20_000 / (time.perf_counter() - start))  # of about a second
        begun = pool.submit(send_request, steps)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert begun.result(20).json() == {"predictions": [steps]}
        assert process.wait(timeout=20) == 0
        assert "Traceback" not in process.stderr.read()


def test_requests_that_still_run_at_the_end_are_answered(models, send, caplog):
    limits = Limits(seconds=2, grace_seconds=0.1)
    request = ("POST", "/v1/models/odd:predict", '{"signature_name": "stuck", "instances": [1]}')
    with ThreadPoolExecutor(4) as pool:
        with running_server(models / "odd", limits=limits) as url:
            running = [pool.submit(send, url, *request) for _ in range(4)]
            time.sleep(0.5)
        for each in running:
            assert each.result(20).status_code == 503
    assert len(caplog.records) == 1 and not caplog.records[0].exc_info
