"""The command line: one line and exit code 2 for a mistake, names, lists, interruption."""

import json
import shlex
import shutil
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

from bert_keras.cli import main
from bert_keras.cli.program import command_parser
from bert_keras.downstream.catalog import TASKS
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertPretrainer
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import tiny_config, tiny_vocabulary, write_records


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with records, a pretrainer, a classifier and tables."""
    folder = tmp_path_factory.mktemp("inputs")
    config, vocabulary = tiny_config(max_positions=16), tiny_vocabulary()
    keras.utils.set_random_seed(1)
    tokenizer = WordPieceTokenizer(vocabulary)
    BertPretrainer(config).save_pretrained(folder / "pretrainer", tokenizer=tokenizer)
    classifier = BertClassifier(config, num_labels=2)
    classifier.save_pretrained(folder / "classifier", tokenizer=tokenizer, labels=("neg", "pos"))
    shutil.copytree(write_records(folder / "made", max_length=12), folder / "records")
    shutil.copytree(folder / "records", folder / "no-vocabulary")
    (folder / "no-vocabulary" / "vocab.txt").unlink()
    rows = "text\tlabel\ngood film\tpos\nbad film\tneg\n"
    for name, text in {
        "train.tsv": rows,
        "unknown-label.tsv": rows + "a film\tmixed\n",
        "one-label.tsv": "text\tlabel\ngood film\tpos\n",
        "deep.jsonl": '{"text": ' + "[" * 20_000 + "\n",
    }.items():
        (folder / name).write_text(text)
    (folder / "latin1.tsv").write_bytes(b"text\tlabel\ncaf\xe9\tpos\n")
    (folder / "file").touch()
    (folder / "full").mkdir()
    (folder / "full" / "mine").touch()
    (folder / "saved" / "NAME" / "1").mkdir(parents=True)
    return folder


PRETRAIN = "pretrain demo --records {}/records --output {}/new"
FINETUNE = (
    "finetune classification --from {}/pretrainer --train {}/train.tsv --dev {}/train.tsv "
    "--output {}/new --recipe demo --max-length 12"
)
EXPORT = "export {}/classifier x --to {}/saved"
VARIANT = EXPORT + " --variant int8 --data {}/train.tsv --task classification"
PREDICT = "predict classification --model {}/classifier --data {}/train.tsv --output {}/answers.tsv"


@pytest.mark.parametrize(
    ("command", "word"),
    [
        (PRETRAIN.replace("/records ", "/none "), "none"),
        (PRETRAIN.replace("/records ", "/no-vocabulary "), "vocab.txt"),
        (PRETRAIN.replace("/new", "/full"), "full"),
        (PRETRAIN.replace("/new", "/file"), "file"),
        (PRETRAIN + " --set num_steps=x", "num_steps"),
        (PRETRAIN + " --set size=L-2_H-1000000000_A-10", "1000000000"),
        (PRETRAIN + " --profile 9999:9999", "9,999"),
        (FINETUNE.replace("{}/pretrainer", "{}/none"), "none does not exist"),
        (FINETUNE.replace("{}/pretrainer", "{}/full"), "full"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/deep.jsonl"), "line 1"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/latin1.tsv"), "line 2"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/one-label.tsv"), "1 label"),
        (FINETUNE.replace("--dev {}/train.tsv", "--dev {}/unknown-label.tsv"), "'mixed'"),
        (FINETUNE.replace("--dev {}/train.tsv", ""), "--dev"),
        (FINETUNE + " --seed 3 --seeds 2", "seed"),
        (FINETUNE + " --seeds 0", "seeds"),
        (FINETUNE + " --set depth=3", "'depth'"),
        (FINETUNE + " --set batchsize=3", "did you mean 'batch_size'"),
        (FINETUNE + " --set seed=-1", "seed is -1"),
        (FINETUNE + " --learning-rates 1e-3 nan", "nan"),
        (FINETUNE + " --set label_column=mood", "'mood'"),
        (FINETUNE + " --max-length 17", "17"),
        (EXPORT + " --variant int8", "--data"),
        (VARIANT.replace("/train.tsv", "/none.tsv"), "none.tsv"),
        (PREDICT.replace("/answers.tsv", "/full"), "full"),
        (PREDICT + " --set max_length=12 --submission {}/x.zip", "CoLA.tsv"),
        ("reproduce c2 --data {}/full --output {}/new", "no task"),
        ("serve {}/none", "none"),
        ("serve {}/saved/NAME", "NAME"),
        ("demo --corpus {}/none.txt --output {}/demo", "none.txt"),
        ("demo --steps 0 --output {}/demo", "num_steps is 0"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(inputs, capsys, command, word):
    before = {p for p in inputs.rglob("*") if p.is_file() and "demo" not in p.parts}
    assert main(command.replace("{}", str(inputs)).split()) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"bert-keras {command.split()[0]}: ") and word in error
    after = {p for p in inputs.rglob("*") if p.is_file() and "demo" not in p.parts}
    allowed = {inputs / "new", *(inputs / "new").rglob("*"), inputs / "answers.tsv"}
    assert after - before <= allowed and not (inputs / "new" / "model").exists()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("finetune mrcp", "did you mean 'mrpc'"),
        ("finetune mrpc --recipe papr", "did you mean 'paper'"),
        ("pretrain dmeo", "did you mean 'demo'"),
        ("predict mood", "'mood'"),
        ("reproduce table9", "table5"),
        ("convert a b --to pytorch", "huggingface"),
        ("export a b --variant int9", "'int9'"),
        ("dance", "pretrain"),
        ("finetune mrpc --learning-rat 1", "--from"),  # no abbreviations of flags
    ],
)
def test_a_mistyped_name_is_answered_without_tensorflow(command, word):
    code = f"import sys\nfrom bert_keras.cli import main\ntry:\n    main({shlex.split(command)})\n"
    code += "finally:\n    assert not {'tensorflow', 'keras'} & {*sys.modules}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 2 and word in run.stderr.splitlines()[-1]


def test_names_are_listed(capsys):
    assert main(["list", "tasks"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*TASKS]
    for what, words in (("recipes", "pretrain electra-tiny"), ("models", "roberta-base")):
        assert main(["list", what]) == 0
        assert words in capsys.readouterr().out


def test_an_option_that_is_given_twice_is_extended():
    parse = command_parser().parse_args
    twice = parse(shlex.split(f"{FINETUNE} --set a=1 b=2 --set c=3"))
    assert twice.changes == ["a=1", "b=2", "c=3"]
    layers = parse(shlex.split("features --from a --texts b --output c --layers -1 --layers -2"))
    assert layers.layers == [-1, -2]
    assert parse(shlex.split(FINETUNE)).changes == []  # not those of the line before


def test_debug_shows_the_traceback(inputs):
    with pytest.raises(InputError, match="none"):
        main(["evaluate", "mrpc", "--model", "none", "--data", "none", "--debug"])


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
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", pytest.fail)
    assert main(command.replace("{}", str(inputs)).split()) == 2
    assert "trains on one machine; unset TF_CONFIG" in capsys.readouterr().err
    assert not (inputs / "new" / "model").exists()


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
