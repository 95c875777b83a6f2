"""Checkpoints by their names on Hugging Face and Kaggle, from a server on this machine."""

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kagglehub
import pytest
from huggingface_hub import constants

from bert_keras.checkpoints.formats import absolute_path, open_checkpoint
from bert_keras.checkpoints.hub import is_name
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from tests.tensorflow_or_skip import needs_tensorflow

FIXTURES = Path(__file__).parent / "fixtures" / "huggingface"
NAMES = {"plain": "classification", "gated": "encoder", "sharded": "pretraining", "old": "encoder"}
SHA = "a" * 40
CODE = """
import os, sys
from bert_keras.checkpoints.hub import download
for name in sys.argv[1:]:
    os.environ.update([name.split("=")] if "=" in name else [])
    sys.modules["torch"] = sys if "TORCH" in os.environ else None
    try:
        print(*() if "=" in name else [download(name)])
    except Exception as error:
        print(*str(error).split())
"""


class Hub(SimpleHTTPRequestHandler):
    """Answers the requests of snapshot_download like https://huggingface.co, from files."""

    def send_head(self):
        is_allowed = "/gated/" not in self.path or self.headers["Authorization"]
        return super().send_head() if is_allowed else self.send_error(401)

    def send_error(self, code, *_):
        kind = "RevisionNotFound" if "/plain/" in self.path else "RepoNotFound"
        self.send_response(code)
        self.send_header("X-Error-Code", "GatedRepo" if code == 401 else kind)
        self.end_headers()

    def end_headers(self):
        self.send_header("X-Repo-Commit", SHA)
        self.send_header("ETag", self.path.replace("/", "-"))
        super().end_headers()


@pytest.fixture
def download(tmp_path):
    """A function that downloads names to tmp_path/cache; NAME=VALUE sets a variable."""
    root, cache = tmp_path / "hub", tmp_path / "cache"
    for name, fixture in NAMES.items():
        folder, api = root / "me" / name / "resolve" / SHA, root / "api" / "models" / "me" / name
        shutil.copytree(FIXTURES / fixture, folder)
        (folder / "pytorch_model.bin").write_bytes(b"no pickle")
        (folder / "tf_model.h5").touch()
        if name == "old":
            (folder / "model.safetensors").unlink()
        files = [{"type": "file", "oid": SHA, "path": each.name} for each in folder.iterdir()]
        for each in files:
            each |= {"rfilename": each["path"], "size": (folder / each["path"]).stat().st_size}
        info = {"id": f"me/{name}", "sha": SHA, "siblings": files}
        for path in ("revision/main", "revision/v1", f"revision/{SHA}", f"tree/{SHA}"):
            (api / path).parent.mkdir(parents=True, exist_ok=True)
            (api / path).write_text(json.dumps(files if "tree" in path else info))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    online = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}

    def download(*names, **environment):
        environment = {**os.environ, **online, "HF_HUB_CACHE": str(cache), **environment}
        run = partial(subprocess.run, env=environment, cwd=tmp_path, check=True, text=True)
        done = run([sys.executable, "-c", CODE, *names], stdout=subprocess.PIPE)
        return list(filter(None, done.stdout.splitlines()))

    yield download
    server.shutdown()


def test_names_are_downloaded_once_and_then_read_without_a_network(download, monkeypatch, tmp_path):
    (tmp_path / "runs" / "mrpc-1").mkdir(parents=True)
    online = "runs/mrpc klue/bert-bse me/a--b me/gated me/plain@v2 me/old me/plain@v1"
    names = f"{online} hf://me/sharded HF_TOKEN=secret me/gated TORCH=1 me/old"
    near, known, private, gated, other, absent, *folders, old = download(*names.split())
    assert "'runs/mrpc-1'" in near and "klue/bert-base" in known and "HF_TOKEN" in private
    closed = {"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_CACHE": str(tmp_path / "new")}
    assert "connect to Hugging Face" in download("me/plain", **closed)[0]
    assert "https://huggingface.co/me/gated" in gated
    assert "v2" in other and "pip install torch" in absent
    for folder in map(Path, folders):
        assert not {"pytorch_model.bin", "tf_model.h5"} & {each.name for each in folder.iterdir()}
    assert (Path(old) / "pytorch_model.bin").exists()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("me/plain@v1").load_report.source == "me/plain@v1"
    read = open_checkpoint("hf://me/sharded").metadata
    assert read == open_checkpoint(FIXTURES / "pretraining").metadata
    with pytest.raises(InputError, match=r"pytorch_model\.bin"):
        open_checkpoint("me/old")


@needs_tensorflow
def test_presets_of_keras_hub_come_from_kaggle(monkeypatch):
    handles, folder = [], FIXTURES / "encoder"
    monkeypatch.setattr(kagglehub, "model_download", lambda each: handles.append(each) or folder)
    for name in ("bert_tiny_en_uncased", "kaggle://keras/bert/keras/bert_tiny_en_uncased"):
        assert open_checkpoint(name).metadata.model == "BertEncoder" and absolute_path(name) == name
    assert all(each.startswith("keras/bert/keras/bert_tiny_en_uncased") for each in handles)


def test_a_path_is_never_asked_for():
    assert not any(map(is_name, ("/a", "./a", "../a", "a/b/c", "~/a", "a/", "gs://a", Path("a"))))
    with pytest.raises(InputError, match=r"docs2 .*docs"):
        open_checkpoint(Path(__file__).parents[2] / "docs2")
    with pytest.raises(InputError):
        open_checkpoint(FIXTURES / "encoder", revision="v1")
