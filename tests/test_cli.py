"""`bert-keras` reports bad input in one sentence with exit code 2 and writes no partial output."""

import json
import shutil

import keras
import pytest
import tensorflow as tf

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.models import BertClassifier, BertPretrainer
from bert_keras.models.pretrained import save_model
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with valid inputs and each kind of invalid input."""
    folder = tmp_path_factory.mktemp("inputs")
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film", "a"))
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_layers=1, num_heads=1, max_positions=16
    )
    keras.utils.set_random_seed(1)
    for name, model, labels in (
        ("pretrainer", BertPretrainer(config), ()),
        ("classifier", BertClassifier(config, num_labels=2), ("neg", "pos")),
    ):
        metadata = ModelMetadata(
            model=type(model).__name__,
            config=config,
            lowercase=True,
            max_length=12,
            text_columns=("text",) if labels else (),
            labels=labels,
        )
        save_model(model, folder / name, metadata=metadata, vocabulary=vocabulary)

    (folder / "corpus.txt").write_text("\n\n".join(["good film\nbad film\na film\na bad film"] * 6))
    settings = BuildSettings(max_length=12, max_predictions=2, shards=1)
    for name in (
        "records",
        "truncated",
        "foreign",
        "no-mask",
        "no-vocabulary",
        "empty",
        "bad-manifest",
        "other-words",
    ):
        build(
            [folder / "corpus.txt"], vocabulary=vocabulary, output=folder / name, settings=settings
        )
    shard = "train-00000-of-00001.tfrecord"
    (folder / "truncated" / shard).write_bytes((folder / "records" / shard).read_bytes()[:-30])
    (folder / "foreign" / shard).write_bytes(b"no records, a text that someone has renamed")
    (folder / "empty" / shard).write_bytes(b"")
    (folder / "no-mask" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\n")
    (folder / "no-vocabulary" / "vocab.txt").unlink()
    (folder / "other-words" / "vocab.txt").write_text("\n".join((*SPECIAL_TOKENS, "good")))
    (folder / "bad-manifest" / "manifest.json").write_text("{")

    rows = "text\tlabel\ngood film\tpos\nbad film\tneg\n"
    for name, text in {
        "train.tsv": rows,
        "unknown-label.tsv": rows + "a film\tmixed\n",
        "too-long.tsv": rows + "a " * 20 + "film\tpos\n",
        "one-label.tsv": "text\tlabel\ngood film\tpos\n",
        "single.txt": "One document.\nIt has no other.\n",
        "nothing.txt": "",
        "nothing.tsv": "",
        "deep.jsonl": '{"text": ' + "[" * 20_000 + "\n",
    }.items():
        (folder / name).write_text(text)
    (folder / "latin1.tsv").write_bytes(b"text\tlabel\ncaf\xe9\tpos\n")
    (folder / "latin1.txt").write_bytes(b"caf\xe9\n\nthe\n")
    (folder / "file").touch()
    (folder / "full").mkdir()
    for name in ("checkpoints", "model"):
        shutil.copytree(folder / "classifier", folder / "run" / name)
    (folder / "full" / "mine").touch()
    (folder / "saved" / "NAME" / "1").mkdir(parents=True)
    (folder / "exported" / "assets.extra").mkdir(parents=True)
    shutil.copy(folder / "classifier" / "bert_keras.json", folder / "exported" / "assets.extra")
    (folder / "exported" / "saved_model.pb").touch()
    return folder


PRETRAIN = "pretrain demo --records {}/records --output {}/new"
FINETUNE = (
    "finetune classification --from {}/pretrainer --train {}/train.tsv --dev {}/train.tsv "
    "--output {}/new --recipe demo --set max_length=12"
)

EXPORT = "export {}/classifier x --to {}/saved"
VARIANT = EXPORT + " --variant int8 --data {}/train.tsv --task classification"
PREDICT = (
    "predict classification --model {}/classifier --data {}/train.tsv --output {}/answers.tsv "
    "--set max_length=12"
)
ASK = PREDICT.replace("--model {}/classifier", "--server http://a..b/v1/models/x")
EVALUATE = "evaluate classification --model {}/run/model --data {}/train.tsv"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (PRETRAIN.replace("/records ", "/none "), "none is not a folder; expected one that bert-"),
        (PRETRAIN.replace("/records ", "/truncated "), "is truncated or corrupt"),
        (PRETRAIN.replace("/records ", "/foreign "), "is not a complete TFRecord file"),
        (PRETRAIN.replace("/records ", "/empty "), "contains no records"),
        (PRETRAIN.replace("/records ", "/no-mask "), "vocab.txt: the vocabulary lacks [MASK]"),
        (
            PRETRAIN.replace("/records ", "/no-vocabulary "),
            "contains no vocab.txt and no tokenizer.json;",
        ),
        (
            PRETRAIN.replace("/records ", "/other-words "),
            "vocab.txt is not the vocabulary that the records were written with",
        ),
        (PRETRAIN.replace("/records ", "/bad-manifest "), "manifest.json is not valid JSON"),
        (PRETRAIN.replace("/new", "/full"), "full exists and has no run; choose a new or empty"),
        (PRETRAIN.replace("/new", "/file"), "file exists and has no run"),
        (PRETRAIN.replace("/new", "/file/new"), "file is not a folder"),
        (PRETRAIN + " --set num_steps=x", "'num_steps=x': expected int"),
        (
            PRETRAIN + " --set size=L-2_H-1000000000_A-10",
            "hidden_size is 1000000000; expected at most 1048576",
        ),
        (PRETRAIN + f" --set batch_size={10**12}", f"batch_size is {10**12}; expected at most"),
        (PRETRAIN + f" --set num_steps={10**20}", f"num_steps is {10**20}; expected at most"),
        (PRETRAIN.replace("demo", "dem"), "no recipe is called 'dem'; known: demo"),
        (FINETUNE.replace("{}/pretrainer", "{}/none"), "does not exist"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/deep.jsonl"), "line 1 is not JSON"),
        (FINETUNE.replace("{}/pretrainer", "{}/full"), "full contains no known checkpoint"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/no.tsv"), "no.tsv does not exist"),
        (FINETUNE.replace("--train {}/train.tsv", "--train {}/latin1.tsv"), "line 2 is not UTF-8"),
        (
            FINETUNE.replace("--train {}/train.tsv", "--train {}/one-label.tsv"),
            "has 1 label in the",
        ),
        (
            FINETUNE.replace("--dev {}/train.tsv", "--dev {}/unknown-label.tsv"),
            "unknown-label.tsv, line 4 has the label 'mixed'; known: neg, pos",
        ),
        (
            FINETUNE.replace("--dev {}/train.tsv", "--dev {}/too-long.tsv"),
            "too-long.tsv, line 4 has 23 tokens, more than max_length=12",
        ),
        (FINETUNE + " text_columns=a,b,c", "text_columns has 3 names; expected"),
        (FINETUNE.replace("classification", "mood"), "no task is called 'mood'; known: cola, "),
        (FINETUNE.replace("--recipe demo", "--recipe dem"), "no recipe is called 'dem'"),
        (FINETUNE.replace("--dev {}/train.tsv", ""), "--train requires --dev"),
        (FINETUNE + " seed=3 --seeds 2", "--set seed has no effect on a study"),
        (FINETUNE + " learning_rate=1 --learning-rates 2", "--set learning_rate has no effect on"),
        (FINETUNE + " learning_rates=1,2", "--set learning_rates has an effect only with"),
        (PRETRAIN + " --profile 9999:9999", "step to profile is 9,999; expected at most"),
        (PRETRAIN + " --dry-run --profile 1:2", "--profile 1:2 has no effect with --dry-run"),
        (EXPORT + " --accept-loss 3", "--accept-loss 3.0 has no effect without --variant; leave"),
        (
            "inspect {}/pretrainer --top-k 3 -o {}/page.html",
            "--top-k 3 has no effect without a TEXT",
        ),
        (FINETUNE + " --seeds 0", "the number of seeds is 0"),
        (
            FINETUNE + " depth=3",
            "'depth=3' is not a setting; expected FIELD=VALUE, where FIELD",
        ),
        (FINETUNE + " seed=-1", "seed is -1; expected 0 to 4294967295"),
        (FINETUNE + " --learning-rates 1e-3 nan", "learning_rate is nan; expected a number above"),
        (FINETUNE.replace("{}/pretrainer", "{}/run"), "itself is not a checkpoint; give"),
        (EVALUATE.replace("{}/run/model", "{}/run"), "run/model"),
        (EVALUATE + " --set max_length=17", "max_length is 17; expected 3 to 16, the number of"),
        pytest.param(
            FINETUNE + " learning_rate=1e38 num_epochs=2",
            "has diverged; start again in another output folder",
            marks=pytest.mark.slow,
        ),
        (FINETUNE + " label_column=mood", "has no column 'mood'"),
        (FINETUNE.replace("max_length=12", "max_length=17"), "max_length is 17; expected 3 to 16"),
        (
            "export {}/pretrainer x --texts 2 --to {}/saved",
            "is a BertPretrainer; only a classifier takes a number of texts",
        ),
        ("export {}/none x --to {}/saved", "does not exist"),
        (EXPORT.replace("/classifier", "/exported"), "exported is a SavedModel, which contains"),
        (EXPORT.replace("/saved", "/file"), "file is not a folder; choose another path"),
        (EXPORT.replace("/saved", "/file/deep"), "file is not a folder; choose another path"),
        (EXPORT.replace(" x ", " ../x "), "the model's name is '../x'; expected a folder name"),
        (EXPORT + " --version -1", "does not end in a version number, 0 to 9223372036854775"),
        (EXPORT + " --variant int8", "--variant requires --data, labelled examples"),
        (VARIANT.replace("int8", "int9"), "no variant is called 'int9'; known: float16, bfloat16"),
        (VARIANT.replace("/train.tsv", "/none.tsv"), "none.tsv does not exist"),
        (VARIANT.replace("/train.tsv", "/unknown-label.tsv"), "has the label 'mixed'; known: neg"),
        (VARIANT.replace(" --task classification", ""), "does not state the task that it was f"),
        (VARIANT + " --accept-loss nan", "--accept-loss is nan; expected a number"),
        (
            VARIANT.replace("int8", "litert") + " --serving-config {}/new",
            "be used with litert",
        ),
        (PREDICT.replace("/answers.tsv", "/full"), "full is a folder; name a file to write"),
        (PREDICT.replace("/answers.tsv", "/file/answers.tsv"), "file is not a folder; choose"),
        (PREDICT.replace("/train.tsv", "/none.tsv"), "none.tsv does not exist"),
        (ASK, "http://a..b/v1/models/x is not a URL: "),
        (
            ASK.replace("a..b", "127.0.0.1:1"),
            "no server responds at http://127.0.0.1:1/v1/models/x",
        ),
        (ASK.replace("/train.tsv", "/nothing.tsv"), "nothing.tsv is empty"),
        (ASK.replace("/train.tsv", "/latin1.txt"), "latin1.txt, line 1 is not UTF-8"),
        (ASK.replace("classification", "ner"), "--server supports only tasks that predict cl"),
        (EVALUATE + " --report {}/full", "full is a folder; name a file to write"),
        ("inspect {}/pretrainer good\udcff -o {}/page.html", "is not valid UTF-8"),
        ("reproduce table9 --data {}/full", "no table is called 'table9'; known: table5, table6"),
        ("reproduce c2 --scale huge --data {}/full", "no scale is called 'huge'; known: tiny, "),
        ("reproduce c2 --data {}/full", "--output DIR is missing; name a new folder or use"),
        ("reproduce c2 --data {}/full --output {}/new", "full contains no task of Table C.2: "),
        ("reproduce c2 --data {}/full --dry-run", "full contains no task of Table C.2: "),
        ("serve {}/none", "none"),
        ("serve {}/full", "full"),
        ("serve {}/saved/NAME", "NAME"),
        ("serve {}/exported", "exported contains no version folder (1, 2, ...)"),
        ("curves {}/none {}/picture", "picture is not a picture file; expected"),
        ("curves {}/none {}/picture.png", "has no TensorBoard event files"),
        ("demo --corpus {}/none.txt --output {}/demo", "none.txt does not exist"),
        ("demo --corpus {}/nothing.txt --output {}/demo", "the corpus contains no text"),
        ("demo --corpus {}/latin1.txt --output {}/demo", "latin1.txt, line 1 is not UTF-8"),
        ("demo --corpus {}/single.txt --output {}/demo", "too few to hold some out: each split"),
        ("demo --output {}/file", "file"),
        ("demo --steps 0 --output {}/demo", "num_steps is 0; expected at least 1"),
    ],
)
def test_bad_input_is_reported_in_one_sentence(inputs, capsys, command, message):
    before = {path for path in inputs.rglob("*") if "demo" not in path.parts}
    assert main(command.replace("{}", str(inputs)).split()) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"bert-keras {command.split()[0]}: ")
    assert message in error
    assert "Traceback" not in error
    assert not any(path.name.endswith(".part") for path in inputs.rglob("*"))
    assert not (inputs / "new" / "model").exists()
    after = {path for path in inputs.rglob("*") if "demo" not in path.parts}
    assert after - before <= {inputs / "new", *(inputs / "new").rglob("*")}


@pytest.mark.parametrize(
    "command",
    [
        FINETUNE + " --seeds 2",
        FINETUNE + " --learning-rates 1e-3",
        "reproduce c2 --data {} --output {}/new",
        "reproduce c2 --data {} --dry-run",
    ],
)
def test_several_workers_are_refused_before_they_connect(inputs, capsys, monkeypatch, command):
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", pytest.fail)
    assert main(command.replace("{}", str(inputs)).split()) == 2
    assert "trains on one machine; unset TF_CONFIG" in capsys.readouterr().err
    assert not (inputs / "new" / "model").exists()


def test_a_port_in_use_is_reported_in_one_sentence(inputs, capsys):
    import socket

    (inputs / "saved" / "NAME" / "1" / "saved_model.pb").touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["serve", str(inputs / "saved" / "NAME"), "--port", str(port)]) == 2
    assert str(port) in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        "convert {}/classifier {}/crowded/model",
        pytest.param(
            f"{FINETUNE} num_epochs=1".replace("/new", "/crowded"), marks=pytest.mark.slow
        ),
    ],
)
def test_a_full_disk_is_reported_in_one_sentence(inputs, capsys, monkeypatch, command):
    def no_space(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bert_keras.checkpoints.native.write_tensors", no_space)
    assert main(command.replace("{}", str(inputs)).split()) == 2
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith("No space left on device; free disk space and run this again")
    )
    assert not (inputs / "crowded" / "model").exists()
    assert not any(path.name.endswith(".part") for path in inputs.rglob("*"))


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
