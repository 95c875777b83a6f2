"""The command line: names, lists, several workers, exhausted memory, interruption."""

import dataclasses
import json
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from bert_keras import BertPretrainer
from bert_keras.cli import main
from bert_keras.cli.program import command_parser
from bert_keras.downstream.catalog import TASKS, ZERO_SHOT
from bert_keras.errors import InputError
from bert_keras.families import hub_names
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import random_model, tiny_config, tiny_vocabulary


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a pretrainer and a table."""
    folder = tmp_path_factory.mktemp("inputs")
    tokenizer = WordPieceTokenizer(tiny_vocabulary())
    BertPretrainer(tiny_config()).save_pretrained(folder / "pretrainer", tokenizer=tokenizer)
    (folder / "train.tsv").write_text("text\tlabel\ngood film\tpos\nbad film\tneg\n")
    return folder


FINETUNE = (
    "finetune classification --from {}/pretrainer --train {}/train.tsv --dev {}/train.tsv "
    "--output {}/new --recipe demo --max-length 12"
)


def test_names_are_listed(capsys):
    assert main(["list", "tasks"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == [*TASKS, *ZERO_SHOT] and names[0] == "classification"
    shown = {"recipes": "pretrain electra-tiny", "models": "roberta-base", "sizes": "size=tiny"}
    assert main(["list"]) == 0
    lists = [line.split()[2] for line in capsys.readouterr().out.splitlines()]
    assert lists == ["tasks", *shown]
    for what, words in shown.items():
        assert main(["list", what]) == 0
        assert words in capsys.readouterr().out
    zoo = (Path(__file__).parents[1] / "docs" / "model-zoo.md").read_text("utf-8")
    assert {*re.findall(r"`([\w-]+/[\w.-]+)`", zoo)} <= {*hub_names()}
    for command, words in (("finetune ner", "context=sentence"), ("pretrain demo", "size=modern")):
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
        assert words in capsys.readouterr().out


def test_an_option_that_is_given_twice_is_extended(inputs):
    parse, command = command_parser().parse_args, FINETUNE.replace("{}", str(inputs))
    assert parse(f"{command} --set a=1 b=2 --set c=3".split()).changes == ["a=1", "b=2", "c=3"]
    assert parse(command.split()).changes == []  # not the values of the line before


def test_debug_shows_the_traceback(inputs):
    with pytest.raises(InputError):
        main(["predict", "neither", "--debug", "--data", str(inputs / "train.tsv")])


@pytest.mark.parametrize("options", ["--seeds 2", "--learning-rates 1e-3"])
def test_several_workers_are_refused_before_they_connect(inputs, capsys, monkeypatch, options):
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    assert main(f"{FINETUNE} {options}".replace("{}", str(inputs)).split()) == 2
    assert "TF_CONFIG" in capsys.readouterr().err
    assert not (inputs / "new" / "model").exists()


def test_an_interrupted_run_says_that_it_continues(inputs, capsys, monkeypatch):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("bert_keras.runs.finetune.fit_resumable", interrupt)
    command = FINETUNE.replace("/new", "/interrupted")
    assert main(command.replace("{}", str(inputs)).split()) == 130
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line == "bert-keras finetune: interrupted; the same command continues the run"


slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "texts", "pattern"),
    [
        ("BertClassifier", "'good film' bad", r"(neg|pos) 0\.\d{3}    good film\n.* bad\n"),
        slow("BertTokenClassifier", "'the river bank'", r"(no entity|.* (neg|pos) 0\.\d{3})\n"),
        slow("BertQuestionAnswering", "'was it good' 'it was'", r"[a-z ]*\n"),
        slow("BertMultipleChoice", "'it was' good bad", r"ending [12] 0\.\d{3}\n"),
        slow("BertSentenceEncoder", "good bad", r"[01]\.\d{3}\n"),
        ("BertMaskedLM", "'it [MASK] good'", r"(\S+ 0\.\d{3}(, )?){5}\n"),
        slow("BertMultipleChoice", "'it was'", None),
        slow("BertQuestionAnswering", "'was it good'", None),
    ],
)
def test_predict_prints_the_answers_to_texts(tmp_path, capsys, name, texts, pattern):
    model = random_model(name, labels=("neg", "pos"), config={"max_positions": 80})
    model.metadata = dataclasses.replace(model.metadata, max_length=80, text_columns=())
    folder = model.save_pretrained(tmp_path / "m", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    capsys.readouterr()
    code, printed = main(shlex.split(f"predict {folder} {texts}")), capsys.readouterr()
    assert (code == 2) if pattern is None else re.search(pattern, printed.out), printed
    if not code:
        assert main(shlex.split(f"predict --json {folder} {texts}")) == 0
        assert isinstance(json.loads(capsys.readouterr().out)[0], dict)
