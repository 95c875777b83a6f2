"""The command that an error message recommends succeeds."""

import json
import re
import shlex

import pytest

from bert_keras.checkpoints.formats import write_checkpoint
from bert_keras.cli import main


def with_key(file, name):
    def change(folder):
        path = folder / file
        path.write_text(json.dumps({**json.loads(path.read_text()), name: "x"}))

    return change


def with_fewer_tokens(folder):
    tokens = (folder / "vocab.txt").read_text("utf-8").splitlines()
    (folder / "vocab.txt").write_text("\n".join(tokens[:-1]), "utf-8")


@pytest.mark.parametrize(
    ("model", "format", "change", "options"),
    [
        ("BertQuestionAnswering", "bert-keras", lambda folder: None, ["--to", "keras-hub"]),
        ("BertEncoder", "huggingface", with_key("config.json", "auto_map"), []),
        ("BertEncoder", "google", with_key("bert_config.json", "it's [new]"), []),
        ("BertEncoder", "google", with_fewer_tokens, []),
    ],
)
def test_the_recommended_command_succeeds(
    checkpoint, tmp_path, capsys, model, format, change, options
):
    source, new = tmp_path / "a", tmp_path / "b"
    write_checkpoint(checkpoint(model), source, format=format)
    change(source)
    assert main(["convert", str(source), str(new), *options]) == 2
    (command,) = re.findall("bert-keras (convert SRC DST .*)", capsys.readouterr().err)
    paths = {"SRC": str(source), "DST": str(new)}
    assert main([paths.get(word, word) for word in shlex.split(command)]) == 0
