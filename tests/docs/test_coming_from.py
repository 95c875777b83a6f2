"""The examples for users of other BERTs run on a small model of random weights."""

import re
from pathlib import Path

import keras
import pytest

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.models import BertEncoder, BertPretrainer, load_model
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

PAGES = Path(__file__).parents[2] / "docs/how-to"
WORDS = "a is it red house hello good bad film . ?"


def blocks(page: str, language: str) -> list[str]:
    """The code of bert_keras, in the order of the page."""
    text = (PAGES / page).read_text("utf-8")
    return re.findall(rf'^```{language} title="bert_keras"\n(.*?)^```$', text, re.M | re.S)


def run(page: str) -> dict:
    """Runs the Python of a page and returns its names."""
    names: dict = {}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page}, example {number}", "exec"), names)
    return names


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Saves a model as a folder of the current directory."""
    monkeypatch.chdir(tmp_path)
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS.split()))
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_positions": 64}
    config = BertConfig(vocab_size=len(vocabulary), activation="gelu_tanh", **sizes)

    def save(model, folder, *, format):
        tokenizer = WordPieceTokenizer(vocabulary)
        model(config).save_pretrained(folder, tokenizer=tokenizer, format=format)

    keras.utils.set_random_seed(1)
    return save


@pytest.mark.slow
def test_tfbertmodel(save):
    save(BertPretrainer, "bert-base-uncased", format="huggingface")
    names = run("coming-from-tfbertmodel.md")
    assert names["model"].output_shape == (None, 1)
    assert load_model("film-critic-huggingface").metadata.labels == ("negative", "positive")
    (command,) = blocks("coming-from-tfbertmodel.md", "bash")
    assert main(command.split()[1:]) == 0
    assert Path("saved_models/film-critic/1/saved_model.pb").is_file()


@pytest.mark.slow
def test_keras_hub(save):
    save(BertEncoder, "bert_preset", format="keras-hub")
    names = run("coming-from-keras-hub.md")
    assert names["outputs"]["pooled_output"].shape == (1, 16)
    assert names["theirs"].preprocessor.sequence_length == 64
    assert load_model("film-critic-preset").metadata.labels == ("negative", "positive")
