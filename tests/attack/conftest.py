"""Processes that run disturbed commands, and a folder with a model of every format and data."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from bert_keras.checkpoints.formats import FORMATS, write_checkpoint
from tests.attack.forking import Outcome, Task
from tests.checkpoints.test_keras_hub import VOCABULARY, hub_model
from tests.factories import LINES, random_checkpoint, tiny_vocabulary, write_records
from tests.tensorflow_or_skip import keras_hub

PROGRAMS = {"bert-keras": "bert_keras.cli", "bert-tfrecords": "tfrecords_tools.cli"}
KERAS = (  # what the commands import, so that it is loaded once
    *("models.loading", "runs.conversion", "runs.export", "runs.embeddings"),
    *("runs.evaluate", "runs.finetune", "runs.pretrain", "serving.server"),
)
# By the name of a folder, which is that of its format.
MODELS = dict.fromkeys(("bert-keras", "google"), "BertPretrainer")
MODELS |= dict.fromkeys(("huggingface", "classifier"), "BertClassifier")
MODELS |= dict.fromkeys(("sentence-transformers", "sentences"), "BertSentenceEncoder")


class Attacker:
    """Runs commands in forks of one process; see `tests.attack.forking`."""

    def __init__(self, *modules: str):
        command = [sys.executable, "-m", "tests.attack.forking", *modules]
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}  # a fork has no threads
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)

    def __call__(self, command: str, folder, **fault) -> Outcome:
        program, *arguments = shlex.split(command)
        program = PROGRAMS.get(program, program)
        task = Task(folder=str(folder), program=program, arguments=arguments, **fault)
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return Outcome(*json.loads(self.process.stdout.readline()))


def running(*modules):
    attacker = Attacker(*modules)
    with attacker.process:
        yield attacker
        attacker.process.stdin.close()


@pytest.fixture(scope="session")
def attack():
    """Runs a command where TensorFlow is not loaded."""
    yield from running("bert_keras.cli", "tfrecords_tools.build", "tfrecords_tools.vocab")


@pytest.fixture(scope="session")
def attack_keras():
    """Runs a command of `bert-keras` where TensorFlow is loaded."""
    yield from running("keras", *(f"bert_keras.{name}" for name in KERAS))


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A corpus, records, tables and models in folders that are named by their format."""
    folder = tmp_path_factory.mktemp("folders")
    write_records(folder, max_length=12)
    tiny_vocabulary().save(folder / "vocab.txt")
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    rows = "good film\tpos\nbad film\tneg\n"
    (folder / "train.tsv").write_text("text\tlabel\n" + 8 * rows)
    fields = {"labels": ("neg", "pos"), "text_columns": ()}
    for name, model in MODELS.items():
        checkpoint = random_checkpoint(model, config={"max_positions": 16}, **fields)
        format = name if name in FORMATS else "bert-keras"
        write_checkpoint(checkpoint, folder / name, format=format)
    tokenizer = keras_hub.models.BertTokenizer(list(VOCABULARY.tokens), lowercase=True)
    hub_model("bert", "BertClassifier", tokenizer).save_to_preset(str(folder / "keras-hub"))
    return folder
