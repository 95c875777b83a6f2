"""The examples of docs/how-to/coming-from-tfbertmodel.md run on a small model of random weights."""

import re
from pathlib import Path

import keras
import pytest

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.models import BertPretrainer
from bert_keras.models.loading import load_model
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

PAGE = Path(__file__).parents[2] / "docs/how-to/coming-from-tfbertmodel.md"
WORDS = "a is it red house hello good bad film . ?"


def blocks(language: str) -> list[str]:
    """The code of bert_keras, in the order of the page."""
    return re.findall(
        rf'^```{language} title="bert_keras"\n(.*?)^```$', PAGE.read_text("utf-8"), re.M | re.S
    )


@pytest.fixture
def hub_folder(tmp_path, monkeypatch):
    """A folder as transformers writes it, in the current directory."""
    monkeypatch.chdir(tmp_path)
    vocabulary = Vocabulary((*SPECIAL_PIECES, *WORDS.split()))
    keras.utils.set_random_seed(1)
    model = BertPretrainer(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_layers=2,
            num_heads=2,
            max_positions=64,
        )
    )
    tokenizer = WordPieceTokenizer(vocabulary)
    model.save_pretrained("bert-base-uncased", tokenizer=tokenizer, format="huggingface")
    return tmp_path


def test_every_example_runs(hub_folder):
    names: dict = {}
    for number, code in enumerate(found := blocks("python")):
        exec(compile(code, f"{PAGE.name}, example {number}", "exec"), names)
    assert len(found) == 12
    assert names["model"].output_shape == (None, 1)
    assert load_model("film-critic-huggingface").card.labels == ("negative", "positive")
    (command,) = blocks("bash")
    assert main(command.split()[1:]) == 0
    assert (hub_folder / "saved_models/film-critic/1/saved_model.pb").is_file()
