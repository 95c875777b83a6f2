"""What an error message of the server or of the client recommends succeeds."""

import contextlib
import json
import os
import re
import shutil
import socket
import time
from urllib.parse import urlsplit

import pytest

from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.exporting import saved_model
from bert_keras.exporting.warmup import WARMUP
from bert_keras.serving.client import Client, predict
from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server
from bert_keras.serving.tf_serving import config_files
from tests.exporting.variants.fine_tuned import fine_tuned
from tests.serving.scripted import json_reply, scripted_server
from tests.serving.text_models import cross_encoder, embedder


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A fine-tuned classifier, which is exported as saved/NAME/1."""
    folder = tmp_path_factory.mktemp("remedies")
    fine_tuned("classification", folder)
    (folder / "lines.txt").write_text("a good film\n", "utf-8")
    (folder / "empty.txt").touch()
    rows = {"sentence1": "a film", "sentence2": "a good film"}
    (folder / "pairs.jsonl").write_text(json.dumps(rows), "utf-8")
    (folder / "pairs.csv").write_text(",".join(rows) + "\n" + ",".join(rows.values()), "utf-8")
    (folder / "pairs.tsv").write_text("\t".join(rows) + "\n" + "\t".join(rows.values()), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model, "run_in_fresh_process", lambda *_: [])
        yield folder


@pytest.fixture
def run(root, monkeypatch):
    """Runs a command and returns its exit code; a server stops as soon as it listens."""
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    return lambda command: main(command.replace("{}", str(root)).split())


@pytest.fixture(scope="module")
def models_with_copies(models, tmp_path_factory):
    """The folder half_plus_two, a SavedModel outside a version folder, and a model folder."""
    folder = tmp_path_factory.mktemp("saved")
    shutil.copytree(models / "half_plus_two", folder / "half")
    shutil.copytree(models / "half_plus_two" / "124", folder / "half_plus")
    return folder


@pytest.mark.parametrize(
    ("arguments", "remedy", "corrected"),
    [
        ("{}/none", "expected saved_models/NAME with version folders", "{}/half"),
        ("{}", "give a folder saved_models/NAME, which bert-keras export writes", "{}/half"),
        ("{}/half/124", "give its parent folder", "{}/half"),
        ("{}/half --versions 9", "contains 123, 124", "{}/half --versions 123 124"),
        ("{}/half --label old=123", "see --versions", "{}/half --versions 123 --label old=123"),
        ("{}/half --label old", "NAME=N, such as stable=3", "{}/half --label stable=124"),
        pytest.param(
            "{}/half --port 65536",
            "expected one from 1024 to 65535",
            "{}/half --port PORT",
            # socket.create_server leaves the socket to the garbage collector.
            marks=pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
        ),
        ("{}/half --port BUSY", "a --port from 1024 to 65535 that no other", "{}/half --port PORT"),
        ("{}/half --host 192.0.2.1", "choose another --host", "{}/half --host 127.0.0.1"),
        ("{}/half --max-batch-size 0", "expected 1 row or more", "{}/half --max-batch-size 1"),
        ("{}/half --timeout 0", r"at most 86400 \(a day\)", "{}/half --timeout 86400"),
    ],
)
def test_the_corrected_serve_command_succeeds(
    run, refusal, models_with_copies, arguments, remedy, corrected
):
    with free_ports(2) as (listener, free):
        ports = {"BUSY": listener.getsockname()[1], "PORT": free.getsockname()[1]}
        free.close()
        listener.listen()

        def command(arguments):
            if "PORT" not in arguments and "--port" not in arguments:
                arguments += " --port PORT"
            for name, number in ports.items():
                arguments = arguments.replace(name, str(number))
            return f"serve {arguments}".replace("{}", str(models_with_copies))

        assert re.search(remedy, refusal(command(arguments)))
        assert run(command(corrected)) == 0


@contextlib.contextmanager
def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield sockets


def test_a_moved_saved_model_is_served(run, refusal, models_with_copies):
    source = models_with_copies / "half_plus"
    message = refusal(f"serve {source} --port 0")
    (new,) = re.findall("move the SavedModel to saved_models/(NAME/1) and give saved_m", message)
    shutil.copytree(source, models_with_copies / new)
    assert run(f"serve {models_with_copies}/NAME --port 0") == 0


def test_a_damaged_version_is_exported_again(run, refusal, tmp_path):
    export, serve = f"export {{}}/model x --to {tmp_path}", f"serve {tmp_path}/x --port 0"
    assert run(export) == 0
    graph = tmp_path / "x" / "1" / "saved_model.pb"
    os.truncate(graph.parent / WARMUP, 99)
    assert "PredictionLogs; export the model again" in refusal(serve)
    os.truncate(graph, 9)
    assert re.search(r"cannot be loaded as a SavedModel .*; export it again", refusal(serve))
    graph.unlink()
    assert "it has no saved_model.pb; export it again" in refusal(serve)
    assert run(export) == 0
    assert run(serve) == 0


@pytest.mark.slow
def test_configuration_files_are_written_for_another_name_and_a_new_export(run, refusal, tmp_path):
    export = f"export {{}}/model _x --to {tmp_path}"
    config = f" --serving-config {tmp_path}/config"
    assert re.search("a letter or digit, .*; export the model with such", refusal(export + config))
    assert run(export) == 0
    version = (tmp_path / "_x").rename(tmp_path / "x_") / "1"
    (version / WARMUP).unlink()
    with pytest.raises(InputError, match=r"has no .* with requests to measure; export it again"):
        config_files.measure_version(version)
    assert run(export.replace("_x", "x_") + config) == 0


def classes(method, path, body):
    prediction = {"label": "no", "labels": ["no", "yes"], "probabilities": [0.75, 0.25]}
    return json_reply({"predictions": [prediction] * len(json.loads(body)["instances"])})


def numbers(method, path, body):
    return json_reply({"predictions": [1.5] * len(json.loads(body)["instances"])})


PREDICT = "predict classification --server URL --data {}/lines.txt --output {}/out.tsv"
PAIRS = PREDICT.replace("classification", "stsb")


@pytest.mark.parametrize(
    ("reply", "command", "remedy", "corrected"),
    [
        (numbers, PAIRS, "use a .tsv, .csv or .jsonl", PAIRS.replace("lines.txt", "pairs.tsv")),
        (numbers, PAIRS, "use a .tsv, .csv", PAIRS.replace("lines.txt", "pairs.csv")),
        (numbers, PAIRS, "or .jsonl file", PAIRS.replace("lines.txt", "pairs.jsonl")),
        (classes, PREDICT.replace("lines", "empty"), "expected one text on each line", PREDICT),
        (
            classes,
            PREDICT.replace("URL", "http://127.0.0.1:1/m"),
            "expected http://HOST:PORT/v1/models/NAME",
            PREDICT,
        ),
    ],
)
def test_the_corrected_predict_command_succeeds(run, refusal, reply, command, remedy, corrected):
    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        assert remedy in refusal(command.replace("URL", url))
        assert run(corrected.replace("URL", url)) == 0


@pytest.mark.slow
def test_a_task_without_classes_is_predicted_with_a_model_folder(run, refusal, tmp_path):
    model, data = fine_tuned("squad1", tmp_path)
    command = f"predict squad1 SOURCE --data {data} --output {tmp_path}/out.json"
    server = "--server http://127.0.0.1:1/v1/models/m"
    assert "use --model with the model folder instead" in refusal(command.replace("SOURCE", server))
    assert run(command.replace("SOURCE", f"--model {model}")) == 0


def test_a_started_server_responds(models):
    with free_ports(1) as (free,):
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1/models/half_plus_two"
    with pytest.raises(InputError, match=r"no server responds .*; start one with bert-keras serve"):
        Client(url, num_attempts=1).predict([1.0])
    with running_server(models / "half_plus_two", port=port):
        assert predict(url, [1.0]) == [2.5]


def test_the_urls_of_a_version_and_of_a_label_are_accepted(both_versions):
    with pytest.raises(InputError, match="expected http://HOST:PORT/v1/models/NAME") as error:
        Client(both_versions)
    names = {"HOST:PORT": urlsplit(both_versions).netloc, "NAME": "half_plus_two"}
    (url,) = re.findall("expected (http://[^ ]+) or", str(error.value))
    for name, value in names.items():
        url = url.replace(name, value)
    suffixes = re.findall("followed by ([^ ]+) or ([^ ]+)", str(error.value))[0]
    for suffix in ("", *suffixes):
        address = url + suffix.replace("/N", "/123").replace("LABEL", "old")
        assert predict(address, [1.0]) == [2.5]


@pytest.mark.parametrize(
    ("wrong", "remedy", "right"),
    [
        ("a", "expected a list of instances", ["a"]),
        ([{1}], "expected a type that JSON can represent", [[1]]),
    ],
)
def test_corrected_instances_are_predicted(wrong, remedy, right):
    with scripted_server(numbers) as server:
        url = f"{server.url}/v1/models/m"
        with pytest.raises(InputError, match=remedy):
            predict(url, wrong)
        assert predict(url, right) == [1.5]


@pytest.mark.parametrize("setting", [{"timeout": 5}, {"batch_size": 1}])
def test_a_longer_timeout_or_a_smaller_batch_succeeds(setting):
    def reply(method, path, body):
        if len(json.loads(body)["instances"]) > 1:
            time.sleep(0.4)
        return numbers(method, path, body)

    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        message = "use a Client with a longer timeout or a smaller batch_size"
        with pytest.raises(InputError, match=message):
            Client(url, timeout=0.2).predict(["a", "b"])
        assert Client(url, **{"timeout": 0.2, **setting}).predict(["a", "b"]) == [1.5, 1.5]


def test_another_signature_has_one_prediction_for_each_instance():
    def reply(method, path, body):
        if json.loads(body).get("signature_name") == "rows":
            return numbers(method, path, body)
        return json_reply({"predictions": [1.5]})

    with scripted_server(reply) as server:
        url = f"{server.url}/v1/models/m"
        with pytest.raises(InputError, match="select a signature with one prediction for each"):
            predict(url, ["a", "b"])
        assert predict(url, ["a", "b"], signature_name="rows") == [1.5, 1.5]


def test_instances_are_accepted_in_several_requests(models):
    instances = [float(number) for number in range(200)]
    with running_server(models / "half_plus_two", limits=Limits(max_body_bytes=500)) as server:
        url = f"{server}/v1/models/half_plus_two"
        with pytest.raises(InputError, match=r"413: .*; send the instances in several requests"):
            Client(url, batch_size=200).predict(instances)
        assert len(Client(url, batch_size=20).predict(instances)) == 200


def test_rows_that_run_together_are_accepted_in_several_requests(models):
    rows, ask = [float(number) for number in range(3000)], {"signature_name": "centred"}
    with running_server(models / "odd", limits=Limits(max_batch_size=2)) as server:
        url = f"{server}/v1/models/odd"
        predict(url, rows[:4], **ask)  # the server finds that the rows depend on each other
        with pytest.raises(InputError, match="send several requests") as error:
            Client(url, batch_size=len(rows)).predict(rows, **ask)
        (size,) = re.findall(r"at most (\d+) of this length", str(error.value))
        assert len(Client(url, batch_size=int(size)).predict(rows, **ask)) == len(rows)


@pytest.mark.parametrize(("rows", "shape"), [([], "[0]"), ([[]], "[1,0]"), ([[]] * 99, "[99,0]")])
def test_a_signature_that_needs_values_runs_with_a_row(server_of, send, rows, shape):
    def ask(rows):
        body = json.dumps({"inputs": {"x": rows}})
        return send(server_of("keras_tiny"), "POST", "/v1/models/keras_tiny:predict", body)

    refused = ask(rows)
    remedy = "send at least one row, with values"
    assert refused.json == {"error": f"The input x has the shape {shape} and no values; {remedy}"}
    assert (refused.status, ask([[1.5, 2, 3]]).status) == (400, 200)


@pytest.mark.extra
def test_a_beam_job_writes_to_another_output_or_to_a_removed_one(run, refusal, tmp_path):
    pytest.importorskip("apache_beam", reason="needs the extra beam")
    embedder(tmp_path / "m" / "1")
    command = f"embed {{}}/lines.txt --model {tmp_path}/m --output {tmp_path}/out --beam"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    assert "out exists already; choose another name or remove it first" in refusal(command)
    assert run(command.replace("/out", "/new")) == 0
    shutil.rmtree(tmp_path / "out")
    assert run(command) == 0


def test_another_path_or_export_serves_what_the_embeddings_api_refuses(send, tmp_path):
    def embed(url, model):
        body = json.dumps({"model": model, "input": "a"})
        response = send(url, "POST", "/v1/embeddings", body)
        return response.status, response.json.get("error", {}).get("message")

    cross_encoder(tmp_path / "pairs" / "1")
    with running_server(tmp_path / "pairs") as url:
        _, message = embed(url, "pairs")
        (path,) = re.findall("no embeddings of texts; send its requests to (.*)", message)
        body = json.dumps({"instances": [{"text": "a", "text_pair": "b"}]})
        assert send(url, "POST", path, body).status == 200
    embedder(tmp_path / "m" / "1", has_counts=False)
    with running_server(tmp_path / "m") as url:
        _, message = embed(url, "m")
        assert "which counts the tokens of a text; export a BertSentenceEncoder" in message
    embedder(tmp_path / "m" / "2")
    with running_server(tmp_path / "m") as url:
        assert embed(url, "m") == (200, None)
