"""Every recorded pair of TF Serving that fits one model with one version is answered equally."""

import json
import shutil
from pathlib import Path

import pytest

from bert_keras.serving.server import running_server

RECORDED = Path(__file__).parents[3] / "shared" / "reference" / "tf_serving_rest.jsonl"

LEFT_OUT = {
    "answers of classify and regress signatures, which our exports do not have": {
        "classify",
        "regress",
        "regress_context",
        "classify_wrong_feature",
        "classify_wrong_dtype",
    },
    "versions that come and go while the server runs": {
        "hot_after_v2",
        "hot_old_version_predict",
        "hot_corrupt_v3",
        "hot_predict_after_corrupt",
        "hot_metadata_corrupt_version",
        "hot_after_v3_removed",
    },
    "sentences from inside an op of another graph, or that name an output of two by chance: only "
    "the status is compared": {
        "shape_texty_2d",
        "shape_rank_keras_row",
        "shape_dim_keras_row",
        "shape_dim_keras_col",
        "shape_extra_rank_keras",
    },
}


@pytest.fixture(scope="module")
def version_123(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("version_123") / "half_plus_two"
    shutil.copytree(models / "half_plus_two" / "00000123", folder / "123")
    with running_server(folder) as url:
        yield url


def test_answers_are_those_recorded(server_of, version_123, send):
    if not RECORDED.is_file():
        pytest.skip(f"the recorded answers of TF Serving are not at {RECORDED}")
    *skipped, only_status = LEFT_OUT.values()
    differing, compared = [], 0
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        request, expected = pair["request"], pair["response"]
        if pair["case"] in set().union(*skipped):
            continue
        answer = send(url_for(request["path"], server_of, version_123), **as_sent(request))
        compared += 1
        same = answer.status == expected["status"]
        if pair["case"] not in only_status:
            same = same and meaning(answer.body.decode(errors="replace")) == meaning(
                expected["body"]
            )
            same = same and content_type(answer.headers) == content_type(expected["headers"])
        if not same:
            differing.append(f"{pair['case']}: {answer.status} {answer.body} not {expected}")
    assert not differing
    assert compared >= 89


def url_for(path, server_of, version_123):
    """The server of the model that `path` names; one that knows no such model for the rest."""
    if "/versions/123" in path:
        return version_123
    names = ("half_plus_three", "keras_tiny", "texty")
    return server_of(next((name for name in names if name in path), "half_plus_two"))


def as_sent(request):
    body = request["body"]
    if request["headers"].get("Content-Encoding") == "gzip":
        # Recorded as text, which no compressed bytes survive: zipped here once more.
        import gzip

        body = gzip.compress(b'{"instances":[1.0]}')
    elif body is not None:
        body = body.encode()
    return {**request, "body": body}


def content_type(headers):
    return headers["Content-Type"].partition(";")[0]


def meaning(body):
    """The parsed body without what depends on the graph's inside or on a second version."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return body
    if "model_version_status" in parsed:
        versions = parsed["model_version_status"]
        newest = max(version["version"] for version in versions)
        return [version for version in versions if version["version"] == newest]
    if "metadata" in parsed:
        for signature in parsed["metadata"]["signature_def"]["signature_def"].values():
            for tensor in (*signature["inputs"].values(), *signature["outputs"].values()):
                tensor["name"] = tensor["name"].rpartition(":")[1]
    return json.dumps(parsed, sort_keys=True)  # as text, where NaN equals NaN
