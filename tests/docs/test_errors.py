"""The errors of damaged and foreign checkpoints are those that the guide shows."""

import json
import pickle
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from bert_keras import BertConfig, BertPretrainer, Vocabulary, WordPieceTokenizer
from bert_keras.cli import main
from bert_keras.text.vocab import SPECIAL_TOKENS

PAGE = Path(__file__).parents[2] / "docs/how-to/import-weights.md"
SECTION = PAGE.read_text("utf-8").split("\n## Errors\n")[1].split("\n## ")[0]
SHOWN = dict(
    re.findall(r"^\$ bert-keras convert (\S+) out\n(.*?)(?=^\$|^```)", SECTION, re.M | re.S)
)
VALUES = {  # of config.json
    "deberta": {"model_type": "deberta-v2"},
    "other-activation": {"hidden_act": "mish"},
    "relative-positions": {"position_embedding_type": "relative_key"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The checkpoints of the page: of a small model, each changed in one way."""
    folder = tmp_path_factory.mktemp("checkpoints")
    words = [f"word{number}" for number in range(30_522 - len(SPECIAL_TOKENS))]
    tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *words)))
    model = BertPretrainer(BertConfig(hidden_size=2, num_layers=1, num_heads=1, max_positions=8))
    for name in SHOWN:
        format = "google" if name == "google" else "huggingface"
        model.save_pretrained(folder / name, format=format, tokenizer=tokenizer)
    for name, values in VALUES.items():
        file = folder / name / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))
    (file,) = (folder / "google").glob("*.data*")
    file.unlink()
    file = folder / "truncated" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-50])
    (folder / "short" / "tokenizer.json").unlink(missing_ok=True)
    (folder / "short" / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words][:-2]) + "\n")
    (folder / "monologg-kobert" / "tokenizer.json").unlink()
    tokens = "\n".join([*SPECIAL_TOKENS, "▁한국", "어"])
    (folder / "monologg-kobert" / "vocab.txt").write_text(tokens, "utf-8")
    (folder / "pickled" / "model.safetensors").unlink()
    (folder / "pickled" / "pytorch_model.bin").write_bytes(pickle.dumps(print))
    return folder


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.extra] * (name == "pickled")) for name in SHOWN],
)
def test_the_guide_shows_the_error(name, folder, monkeypatch, capsys):
    if name == "pickled" and find_spec("torch") is None:
        pytest.skip('needs PyTorch: pip install "bert-keras[parity]"')
    monkeypatch.chdir(folder)
    assert main(["convert", name, "out"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == " ".join(SHOWN[name].split())
    assert not Path("out").exists()
