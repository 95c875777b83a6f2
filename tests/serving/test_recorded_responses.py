"""The local server responds to every recorded request as TF Serving did, but for `NOT_SERVED`.

White space, and numbers beyond the precision of float32, may differ.
"""

import contextlib
import gzip
import json
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bert_keras.serving.server import running_server

RECORDED = Path(__file__).parents[3] / "shared" / "reference" / "tf_serving_rest.jsonl"

MODELS = ("half_plus_three", "keras_tiny", "texty")  # requests without one are for half_plus_two
# Sentences from inside an op of another graph, or that name an output of two by chance.
ONLY_STATUS = {
    "shape_texty_2d",
    "shape_rank_keras_row",
    "shape_dim_keras_row",
    "shape_dim_keras_col",
    "shape_extra_rank_keras",
}
PARSE_ERROR = "JSON Parse error: "
NOT_SERVED = (":classify", ":regress")
# Pairs of a folder that changes, for the local server only, and what was done to it before them.
AFTER_V2 = ("hot_after_v2", "hot_old_version_predict")
AFTER_CORRUPT_V3 = ("hot_corrupt_v3", "hot_predict_after_corrupt", "hot_metadata_corrupt_version")
AFTER_V3_REMOVED = ("hot_after_v3_removed",)
HOT = {*AFTER_V2, *AFTER_CORRUPT_V3, *AFTER_V3_REMOVED}


@pytest.fixture(scope="module")
def pairs():
    if not RECORDED.is_file():
        pytest.skip(f"the recorded answers of TF Serving are not at {RECORDED}")
    recorded = map(json.loads, RECORDED.read_text(encoding="utf-8").splitlines())
    return {
        pair["case"]: pair for pair in recorded if not pair["request"]["path"].endswith(NOT_SERVED)
    }


def test_responses_equal_the_recorded_ones(pairs, server_of, both_versions, send):
    for case in pairs.keys() - HOT:
        path = pairs[case]["request"]["path"]
        model = next((each for each in MODELS if f"/{each}" in path), None)
        check(pairs, [case], server_of(model) if model else both_versions, send)


def test_versions_are_loaded_and_unloaded_as_recorded(pairs, models, tmp_path, send):
    folder = tmp_path / "hot"
    shutil.copytree(models / "keras_tiny" / "1", folder / "1")
    with running_server(folder) as url:
        shutil.copytree(folder / "1", folder / "2")
        with always_answered(url, send):
            wait_for_states(url, send, ["AVAILABLE", "END"])
        check(pairs, AFTER_V2, url, send)
        shutil.copytree(folder / "2", folder / "3")
        data = folder / "3" / "variables" / "variables.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:-1])
        wait_for_states(url, send, ["END", "AVAILABLE", "END"])
        check(pairs, AFTER_CORRUPT_V3, url, send)
        shutil.rmtree(folder / "3")
        time.sleep(2)  # two looks at the folder
        check(pairs, AFTER_V3_REMOVED, url, send)


@contextlib.contextmanager
def always_answered(url, send):
    """Sends requests continuously during the block; all of them must succeed."""
    statuses, done = [], threading.Event()

    def send_request():
        while not done.is_set():
            body = '{"instances": [[1, 2, 3]]}'
            statuses.append(send(url, "POST", "/v1/models/hot:predict", body).status)

    thread = threading.Thread(target=send_request)
    thread.start()
    yield
    done.set()
    thread.join()
    assert len(statuses) > 5
    assert set(statuses) == {200}


def wait_for_states(url, send, states):
    end = time.monotonic() + 30
    while True:
        versions = send(url, "GET", "/v1/models/hot").json["model_version_status"]
        if [version["state"] for version in versions] == states:
            return
        assert time.monotonic() < end, versions
        time.sleep(0.05)


def check(pairs, cases, url, send):
    for case in cases:
        request, expected = pairs[case]["request"], pairs[case]["response"]
        answer = send(url, **as_sent(request))
        assert answer.status == expected["status"], (case, answer)
        if case not in ONLY_STATUS:
            body = answer.body.decode(errors="replace")
            assert meaning(body) == meaning(expected["body"]), (case, answer, expected)
            assert content_type(answer.headers) == content_type(expected["headers"])


def as_sent(request):
    body = request["body"]
    if request["headers"].get("Content-Encoding") == "gzip":
        # Recorded as text, which no compressed bytes survive: zipped here once more.
        body = gzip.compress(b'{"instances":[1.0]}')
    elif body is not None:
        body = body.encode()
    return {**request, "body": body}


def content_type(headers):
    return headers["Content-Type"].partition(";")[0]


def meaning(body):
    """The parsed body without white space, names of graph nodes, and digits beyond float32."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return body
    if "error" in parsed:
        message = parsed["error"].partition("\n\t [[")[0]  # a node name follows
        if message.startswith(PARSE_ERROR):  # then come the words of another JSON parser
            message = PARSE_ERROR
        numbers = re.sub(r"\d+(\.\d+)?", lambda number: f"{float(number[0]):g}", message)
        parsed["error"] = "".join(numbers.split())
    if "metadata" in parsed:
        for signature in parsed["metadata"]["signature_def"]["signature_def"].values():
            for tensor in (*signature["inputs"].values(), *signature["outputs"].values()):
                tensor["name"] = tensor["name"].rpartition(":")[1]
    # As text, where NaN equals NaN.
    return json.dumps(rounded(parsed), sort_keys=True)


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if isinstance(value, float) else value
