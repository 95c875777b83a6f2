"""The server starts, finishes its requests when it stops, and frees its port."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server, serve
from tests.serving.conftest import served_by_command


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
import sys, uvicorn
from bert_keras.cli import main
uvicorn.Server.run = lambda *_, **__: print("modules", {"keras", "torch"} & {*sys.modules})
main(["serve", sys.argv[1], "--port", "0"])
"""


def test_it_needs_no_keras(models):
    program = [sys.executable, "-c", PROGRAM, models / "half_plus_two"]
    ran = subprocess.run(program, capture_output=True, text=True)
    assert "modules set()" in ran.stdout.splitlines(), ran.stderr


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


def test_a_refusal_is_logged_with_the_names_that_a_request_may_use(models, send, caplog):
    with running_server(models / "keras_tiny") as url:
        for name in ("keras_tiny", "tini"):
            send(url, "POST", f"/v1/models/{name}:predict", b'{"instances": [{"z\\u001b": 1}]}')
    (message,) = caplog.messages  # at most one a second
    assert "'serving_default': ['x']" in message and "\x1b" not in message
