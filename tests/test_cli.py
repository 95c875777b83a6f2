"""The command line: names, lists, several workers, exhausted memory, interruption."""

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from functools import partial

import pytest
import tensorflow as tf

from bert_keras.cli import main
from bert_keras.cli.listing import MEASURED
from bert_keras.cli.program import command_parser
from bert_keras.downstream.catalog import TASKS
from bert_keras.downstream.names import ALIASES, ZERO_SHOT
from bert_keras.errors import InputError
from bert_keras.models import BertPretrainer
from bert_keras.runs import recipes
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
START = f"finetune classification --from m --train {__file__} --output new "

MISTYPED = {
    "finetune mrcp": "did you mean 'mrpc'",
    "pretrain dmeo": "did you mean 'demo'",
    "dance": "pretrain",
    "finetun": "did you mean 'finetune'",
    "train mrpc": "use finetune or pretrain",
    "finetune": "example: bert-keras finetune classification --train films.csv --from",
    "distil": "use finetune --teacher",
    "pretrain laptop": "did you mean 'laptop-10min' or 'laptop-hour'",
    "finetune mrpc --device cuda": "--device is --strategy here",
    "evaluate m test.csv": "example: bert-keras evaluate",
    "convert m new --format hugging-face": "did you mean 'huggingface'",
    "finetune mrpc --learning-rat 1": "did you mean '--learning-rate'",
    START + "--recipe papr": "did you mean 'paper'",
    START + "--set lerning_rate=1": "did you mean 'learning_rate'",
    START + "--set text_colums=a": "did you mean 'text_columns'",
    START + "--train none.csv": "none.csv does not exist",
    "pretrain demo --records none --output new": "expected a folder of bert-tfrecords build",
    "evaluate mrpc --data .": "'mrpc' is a task",
    "evaluate mrpc --model m --data .": "--model is MODEL, the first argument",
    "export m name --to saved": "--to is --output here",
    START: "ends in '.py'",
    START.replace(f"--train {__file__}", "train.csv"): "too many; example: bert-keras finetune",
    "serve --model_base_path m": "saved_models/NAME, the first argument",
    START.replace("--train", "--data"): "give it as --train",
    "embed m --data lines.csv --output new.npy": "lines.csv is a table",
    "evaluate m --data . --report new.pdf": ".html",
    f"finetune pos --train {__file__} --from m --output new": "expected a word and its tag",
    "embed m --data . --output -": "ends in .npy or .parquet",
    "pretrain demo --records . --blimp none --output new": "none does not exist",
    "convert m .": "name a new folder",
    START + "--strategy gpu": "known: auto, one",
    START + "--learning-rate 30": "--learning-rate is 30.0",
    f"evaluate m --data {__file__} --split dev": "omit --split",
    "export m a/b": "a/b",
    "reproduce table99": "table5, table6, c1",
}


def test_mistyped_names_are_answered_without_tensorflow():
    code = (
        "import shlex, sys\nfrom bert_keras.cli import main\nfor command in sys.argv[1:]:\n"
        "    try: code = main(shlex.split(command))\n"
        "    except SystemExit as stop: code = stop.code\n"
        "    assert code == 2 and not {'tensorflow', 'keras'} & {*sys.modules}"
    )
    run = subprocess.run([sys.executable, "-c", code, *MISTYPED], capture_output=True, text=True)
    for line, word in zip(run.stderr.splitlines(), MISTYPED.values(), strict=True):
        assert word in line


def test_names_are_listed(capsys):
    assert main(["list", "tasks"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names == [*TASKS, *ZERO_SHOT, *ALIASES]
    known = {f"pretrain {each}" for each in recipes.PRETRAIN}
    known |= {f"finetune {each}" for each in recipes.FINETUNE}
    assert {*MEASURED} <= known
    for what, words in (
        ("recipes", "pretrain electra-tiny"),
        ("models", "roberta-base"),
        ("sizes", "size=tiny"),
    ):
        assert main(["list", what]) == 0
        assert words in capsys.readouterr().out
    for command, words in (("finetune ner", "context=sentence"), ("pretrain demo", "size=modern")):
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
        assert words in capsys.readouterr().out


def test_an_option_that_is_given_twice_is_extended():
    parse = command_parser().parse_args
    twice = parse(shlex.split(f"{FINETUNE} --set a=1 b=2 --set c=3"))
    assert twice.changes == ["a=1", "b=2", "c=3"]
    assert parse(shlex.split(FINETUNE)).changes == []  # not those of the line before


def test_debug_shows_the_traceback(inputs):
    with pytest.raises(InputError, match="none"):
        main(["evaluate", "none", "--data", "none", "--debug"])


@pytest.mark.parametrize(
    "command",
    [
        FINETUNE + " --seeds 2",
        FINETUNE + " --learning-rates 1e-3",
        "reproduce c2 --data {} --output {}/new",
    ],
)
def test_several_workers_are_refused_before_they_connect(inputs, capsys, monkeypatch, command):
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    monkeypatch.setattr("bert_keras.distribution.strategy._multiworker", pytest.fail)
    monkeypatch.setattr("bert_keras.experiments.experiments.Experiment.inputs", lambda *_: None)
    assert main(command.replace("{}", str(inputs)).split()) == 2
    assert "unset TF_CONFIG" in capsys.readouterr().err
    assert not (inputs / "new" / "model").exists()


def test_keras_starts_before_a_preset_of_keras_hub_is_loaded(tmp_path, monkeypatch):
    calls = []
    preset = tmp_path / "preset"
    preset.mkdir()
    (preset / "config.json").write_text('{"class_name": "BertBackbone"}')
    (tmp_path / "train.tsv").write_text("text\tlabel\ngood\tyes\nbad\tno\n")
    monkeypatch.setattr("bert_keras.cli.training.start_keras", lambda _: calls.append("start"))

    def stored_config(path):
        calls.append("config")
        raise InputError("stop")

    monkeypatch.setattr("bert_keras.checkpoints.keras_hub_preset.stored_config", stored_config)
    files = [f"{name}={tmp_path}/train.tsv" for name in ("--train", "--dev")]
    start = [f"--from={preset}", f"--output={tmp_path}/r"]
    assert main(["finetune", "classification", *files, *start]) == 2
    assert calls == ["start", "config"]


@pytest.mark.slow
def test_exhausted_memory_is_reported_in_one_sentence(inputs, capsys, monkeypatch):
    def exhaust(*arguments, **named):
        tf.zeros([2**45])

    monkeypatch.setattr("bert_keras.runs.finetune.fit_resumable", exhaust)
    command = FINETUNE.replace("/new", "/exhausted")
    assert main(command.replace("{}", str(inputs)).split()) == 2
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line.startswith("bert-keras finetune: not enough memory; use smaller sizes")


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
        slow("BertMultipleChoice", "'it was'", "2 endings"),
        slow("BertQuestionAnswering", "'was it good'", "takes 2 texts"),
        ("BertMaskedLM", "'it was good'", "no \\[MASK\\]"),
        ("BertEncoder", "good", "predicts nothing"),
    ],
)
def test_predict_prints_the_answers_to_texts(tmp_path, capsys, name, texts, pattern):
    model = random_model(name, labels=("neg", "pos"), config={"max_positions": 80})
    model.metadata = dataclasses.replace(model.metadata, max_length=80, text_columns=())
    folder = model.save_pretrained(tmp_path / "m", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    capsys.readouterr()
    code, printed = main(shlex.split(f"predict {folder} {texts}")), capsys.readouterr()
    assert re.search(pattern, printed.err if code else printed.out), printed
    if not code:
        assert main(shlex.split(f"predict --json {folder} {texts}")) == 0
        assert isinstance(json.loads(capsys.readouterr().out)[0], dict)
