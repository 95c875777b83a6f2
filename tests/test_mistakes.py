"""Common mistakes of users, and a part of the sentence that answers each."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys

import pytest

import bert_keras
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import random_model, tiny_vocabulary, write_records

TABLE = "text\tlabel\ngood film\tpos\nbad film\tneg\n"
QUESTION = {"id": "q1", "question": "was it good", "answers": []}
PARAGRAPH = {"context": "the river was good", "qas": [QUESTION]}
FILES = {
    "exported/1/saved_model.pb": "",
    "train.tsv": TABLE,
    "unknown-label.tsv": TABLE + "a film\tmixed\n",
    "empty-label.tsv": TABLE + "a film\t\n",
    "empty-text.tsv": TABLE + "\tpos\n",
    "few.tsv": TABLE + "a film\tpos\n" * 7,
    "one-label.tsv": "text\tlabel\ngood film\tpos\nbad film\tpos\n",
    "no-json.jsonl": '{"text": "a", "label": "pos"}\n{"text": \n',
    "latin1.tsv": b"text\tlabel\ncaf\xe9\tpos\n",
    "no-labels.tsv": "text\ngood film\n",
    "words.txt": "the film\nwas good\n",
    "blank.txt": " \n",
    "numbers.tsv": "text\tlabel\ngood film\t1.5\nbad film\tmany\n",
    "one-column.conll": "the\nriver\n",
    "no-answers.json": json.dumps({"data": [{"title": "", "paragraphs": [PARAGRAPH]}]}),
    "text.py": "",
    "full/mine": "",
    "run/recipe.json": '{"task": {"max_length": 11}}',
    "run/scores.json": "",
    "saved/empty/notes": "",
    "saved/damaged/1/saved_model.pb": "no graph",
    "SST-2/train.tsv": "sentence\tlabel\ngood film\t1\n",
    "SST-2/dev.tsv": "sentence\tlabel\ngood film\t1\n",
}
MODELS = {
    "pretrainer": "BertPretrainer",
    "classifier": "BertClassifier",
    "encoder": "BertEncoder",
    "sentences": "BertSentenceEncoder",
    "electra": "BertReplacedTokenPretrainer",
    "short": "BertEncoder",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, models and files, many of which have one fault."""
    folder = tmp_path_factory.mktemp("folder")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    records = write_records(folder, max_length=12)
    shutil.copytree(records, folder / "records-alone").joinpath("vocab.txt").unlink()
    labels = {"labels": ("neg", "pos"), "text_columns": (), "config": {"max_positions": 16}}
    tokenizer = WordPieceTokenizer(tiny_vocabulary())
    for name, model in MODELS.items():
        fields = {"config": {"max_positions": 8}, "max_length": 8} if name == "short" else labels
        random_model(model, **fields).save_pretrained(folder / name, tokenizer=tokenizer)
    model = random_model("BertClassifier", **labels)
    model.save_pretrained(folder / "hf", tokenizer=tokenizer, format="huggingface")
    (folder / "hf" / "tokenizer.json").unlink()
    for name, file, change in (
        ("no-config", "config.json", None),
        ("no-vocabulary", "vocab.txt", None),
        ("other-vocabulary", "vocab.txt", lambda text: text + b"more\n"),
        ("truncated", "model.safetensors", lambda content: content[:-50]),
        ("pickled", "model.safetensors", None),
    ):
        path = shutil.copytree(folder / "hf", folder / name) / file
        path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    (folder / "pickled" / "pytorch_model.bin").touch()
    return folder


FINETUNE = (
    "finetune classification --from pretrainer --train train.tsv --dev train.tsv --output new "
    "--recipe demo --max-length 12"
)
SST2 = "finetune sst2 --from pretrainer --output new --max-length 9"
NER = "finetune ner --from pretrainer --output new --max-length 9"
SQUAD = (
    "finetune squad1 --from pretrainer --train no-answers.json --output new "
    "--set max_length=16 max_question_length=4"
)
PRETRAIN = "pretrain demo --records records --output new"
EVALUATE = "evaluate classifier --task classification --data train.tsv --set max_length=12"
PREDICT = (
    "predict classifier --task classification --data train.tsv --output new.tsv --set max_length=12"
)
EXPORT = "export classifier name --output new"
# Arguments -> a part of the sentence
MISTAKES = {
    # Values
    FINETUNE + " --set patience": "'patience'",
    FINETUNE + " --set num_epochs=many": "many",
    FINETUNE + " --seed 3 --seeds 2": "a study sets the seed",
    FINETUNE + " --learning-rates 1e-3 nan": "nan",
    FINETUNE + " --epochs 9999999999": "num_epochs is 9999999999; expected at most",
    FINETUNE + " --max-length 17": "17",
    FINETUNE + " --strategy multiworker": "TF_CONFIG",
    # Outputs
    PRETRAIN + " --output full": "full exists",
    FINETUNE.replace("new", "run"): "max_length was 11 and is now 12",
    PREDICT.replace("new.tsv", "./train.tsv"): "is the file of --data",
    EXPORT + " --serving-config full": "full",
    # Models and records
    PRETRAIN + " --records exported": "exported",
    PRETRAIN + " --records records-alone": "vocab.txt",
    FINETUNE + " --from none": "supported are models of the kinds bert, albert",
    FINETUNE + " --from no-config": "config.json",
    FINETUNE + " --from no-vocabulary": "no-vocabulary",
    FINETUNE + " --from other-vocabulary": "vocabulary",
    FINETUNE + " --from truncated": "model.safetensors",
    EVALUATE.replace("classifier", "run"): "run is a run without a model",
    EVALUATE + " --task squad1": "BertClassifier",
    "convert exported/1 new": "bert-keras serve exported",
    "convert gs://bucket/model new": "gs://bucket/model",
    "convert pickled new": "pip install torch",
    "convert classifier new --model-class BertMaskLM": "did you mean 'BertMaskedLM'?",
    "convert classifier new --layers 3": "3",
    "convert electra new --format google": "google",
    "export electra name --output new": "BertReplacedTokenPretrainer",
    # Examples
    FINETUNE + " --set text_columns=title": "'title'",
    FINETUNE + " --dev unknown-label.tsv": "'mixed'",
    FINETUNE + " --train empty-label.tsv": "empty-label.tsv, line 4",
    FINETUNE + " --train empty-text.tsv": "empty-text.tsv, line 4",
    FINETUNE + " --train one-label.tsv --dev one-label.tsv": "only the label",
    FINETUNE + " --train no-json.jsonl": "no-json.jsonl, line 2",
    FINETUNE + " --train latin1.tsv": "latin1.tsv, line 2",
    FINETUNE.replace("classification", "regression") + " --train numbers.tsv": "many",
    FINETUNE.replace("classification", "mrpc"): "the task classification",
    FINETUNE.replace("classification", "retrieval"): "query_column=NAME positive_",
    FINETUNE.replace("classification", "sentence-pairs"): "text_columns=NAME score",
    SST2 + " --data tfds:gleu/sst2": "gleu",
    NER + " --train one-column.conll": "one-column.conll",
    SQUAD: "q1",
    PREDICT + " --set max_length=99": "99",
    "predict pretrainer 'it was good'": "no [MASK]",
    "predict encoder good": "predicts nothing",
    "predict sentences film": "compares 2 texts",
    "embed sentences --data blank.txt --output new.npy": "no text",
    "embed sentences --data words.txt --output new.npy --prompt query": "query",
    "inspect encoder a b film -o new.html": "3 texts",
    "reproduce c2 --data full --output new": "full",
    # Server
    "serve saved/empty": "saved/empty",
    "serve saved/damaged --versions 7": "7",
    "serve saved/damaged --port 0": "saved/damaged/1",
}
EARLY = {  # answered without TensorFlow
    # Names
    "dance": "no command is called 'dance'",
    "train mrpc": "did you mean 'finetune' or 'pretrain'?",
    "finetune": "example: bert-keras finetune classification --train films.csv --from",
    "finetune mrcp": "did you mean 'mrpc'?",
    "finetune sentence-similarity": "did you mean 'sentence-pairs'?",
    "pretrain laptop": "did you mean 'laptop-10min' or 'laptop-hour'?",
    "evaluate mrpc --data .": "'mrpc' is a task; expected a model, and --task mrpc",
    "evaluate --model m": "no argument is called --model; did you mean 'MODEL'?",
    "convert m new --format hugging-face": "did you mean 'huggingface'?",
    "reproduce table99": "table5, table6, c2",
    "reproduce table6 --scale small --data . --output new": "known: table5, c2, labels",
    FINETUNE + " --lr 1": "no argument is called --lr; did you mean '--learning-rate'?",
    FINETUNE + " --num_train_epochs 3": "did you mean '--epochs'?",
    FINETUNE + " --recipe papr": "did you mean 'paper'?",
    FINETUNE + " --set lerning_rate=1": "did you mean 'learning_rate'?",
    FINETUNE
    + " patience=3": "'patience=3' is one argument too many; a setting is --set patience=3",
    # Values
    FINETUNE + " --learning-rate 30": "learning_rate is 30.0; expected more than 0, up to 1",
    FINETUNE + " --batch-size 0": "expected a whole number, at least 1, not '0'",
    EXPORT + " --variant int8": "--variant needs --data",
    EXPORT: "set KERAS_BACKEND=tensorflow",
    "serve classifier": "bert-keras export classifier NAME",
    "serve saved": "give saved/damaged",
    "serve saved/damaged --port TAKEN": "TAKEN",
    "serve saved/damaged --port 70000": "70000",
    "serve saved/damaged --host 192.0.2.1": "192.0.2.1",
    "serve saved/damaged --timeout 0": "seconds is 0.0",
    # Files
    FINETUNE + " --train trian.tsv": "did you mean 'train.tsv'?",
    FINETUNE + " --train trian.tsv --from short": "the encoder reads 8 tokens",
    FINETUNE + " --train full": "--train full is a folder; give it as --data full",
    FINETUNE + " --data full": "give either --data DIR, or --train FILE",
    FINETUNE.replace("--train train.tsv", ""): "give either --data DIR, or --train FILE",
    SST2 + " --data train.tsv": "--data train.tsv is a file; give it as --train train.tsv",
    FINETUNE.replace("--dev train.tsv", "") + " --train few.tsv": "--dev FILE",
    "pretrain demo --records none --output new": "expected a folder of bert-tfrecords build",
    PRETRAIN.partition(" --output")[0]: "--output DIR is missing; name a new folder",
    EVALUATE + " --data no-labels.tsv": "'label'",
    EVALUATE + " --report new.pdf": "expected a name that ends in .html",
    PREDICT + " --output full": "full: expected a file, not a folder",
    "convert classifier full": "full exists already",
    "convert classifier .": ". exists already",
    "demo --corpus none.txt --output new": "none.txt",
    "embed m --data lines.csv --output new.npy": "lines.csv is a table",
    "export classifier a/b": "a/b",
    "export classifier damaged --output saved --model-version 1": "saved/damaged/2",
    # Texts
    "predict classifier": "give either texts",
    "predict classifier words.txt": "words.txt is a file; give it as --data words.txt",
    "predict classifier text --task ner": "--task has no effect with texts",
    "predict ./clasifier text": "did you mean 'classifier'?",
    "predict records text": "records is a folder of records",
    PREDICT + " --json": "--json has no effect with --data",
}


def contents(folder):
    """The paths in a folder, and when its files were written."""
    paths = sorted(folder.rglob("*"))
    return paths, [path.stat().st_mtime_ns for path in paths if path.is_file()]


@pytest.mark.parametrize("arguments", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(arguments, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")  # serve sets it for its process
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    before = contents(folder)
    assert main(shlex.split(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bert-keras") and MISTAKES[arguments] in line
    assert "--debug" not in line  # which follows exceptions that are not InputError
    assert contents(folder) == before


def test_early_mistakes_are_one_line_without_tensorflow_and_leave_nothing(folder):
    code = (
        "import shlex, sys\nfrom bert_keras.cli import main\nfor command in sys.argv[1:]:\n"
        "    try: code = main(shlex.split(command))\n"
        "    except SystemExit as stop: code = stop.code\n"
        "    assert code == 2 and not {'tensorflow', 'keras'} & {*sys.modules}, command"
    )
    before = contents(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        commands = [each.replace("TAKEN", port) for each in EARLY]
        environment = os.environ | {"KERAS_BACKEND": "jax"}  # the wrong one for an export
        options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
        run = subprocess.run([sys.executable, "-c", code, *commands], **options)
    for line, part in zip(run.stderr.splitlines(), EARLY.values(), strict=True):
        assert line.startswith("bert-keras") and part.replace("TAKEN", port) in line
    assert contents(folder) == before


RUN = {"task": "rte", "recipe": "paper", "pretrained": "m", "data": ".", "output": "new"}
# Function of the public names, arguments -> a part of the sentence
CALLS = [
    ("evaluate", {"model": "m", "dat": "d"}, "no argument of evaluate is called 'dat'; .* 'data'"),
    ("BertConfig", {"hidden_sise": 8}, "of BertConfig is .* did you mean 'hidden_size'"),
    ("WordPieceTokenizer", {"do_lower_case": True}, "did you mean 'lowercase'"),
    ("BertAdamW", {"lr": 1e-3}, "did you mean 'learning_rate'"),
    ("BertClassifier", {"config": "minilm"}, "BertClassifier.from_pretrained loads"),
    ("finetune", {**RUN, "lr": 1e-3}, "no setting is called 'lr'; did you mean 'learning_rate'"),
    ("from_keras_hub", {"model": "bert_base_en"}, "load_model.*bert_base_en"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), CALLS)
def test_a_mistake_in_a_call_is_one_sentence(name, arguments, message):
    with pytest.raises(InputError, match=message):
        getattr(bert_keras, name)(**arguments)
