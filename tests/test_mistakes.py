"""Common mistakes of users end with exit code 2, one line that names the value, and no files."""

import json
import shlex
import shutil
import socket
import sys

import pytest

from bert_keras.cli import main
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import random_model, tiny_vocabulary, write_records

TABLE = "text\tlabel\ngood film\tpos\nbad film\tneg\n"
ANSWER = {"text": "good", "answer_start": 14}
CONLL = "the O\n\nriver B-LOC\nbank I-LOC\n"


def squad(**fields):
    """A file with one question of SQuAD."""
    question = {"id": "q1", "question": "was it good", **fields}
    paragraph = {"context": "the river was good", "qas": [question]}
    return json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]})


FILES = {
    "exported/1/saved_model.pb": "",
    "train.tsv": TABLE,
    "unknown-label.tsv": TABLE + "a film\tmixed\n",
    "empty-label.tsv": TABLE + "a film\t\n",
    "empty-text.tsv": TABLE + "\tpos\n",
    "few.tsv": TABLE + "a film\tpos\n" * 7,
    "one-label.tsv": "text\tlabel\ngood film\tpos\nbad film\tpos\n",
    "list.json": "[1]",
    "list.jsonl": '{"text": ["a", "b"], "label": "pos"}\n',
    "no-json.jsonl": '{"text": "a", "label": "pos"}\n{"text": \n',
    "deep.jsonl": '{"text": ' + "[" * 20_000 + "\n",
    "quote.csv": 'text,label\n"good film,pos\nbad film,neg\n',
    "latin1.tsv": b"text\tlabel\ncaf\xe9\tpos\n",
    "no-labels.tsv": "text\ngood film\n",
    "words.txt": "the film\nwas good\n",
    "blank.txt": " \n",
    "numbers.tsv": "text\tlabel\ngood film\t1.5\nbad film\tmany\n",
    "train.conll": CONLL,
    "one-column.conll": "the\nriver\n",
    "mixed.conll": CONLL + "\nbank S-LOC\nfilm L-LOC\n",
    "squad.json": squad(answers=[ANSWER]),
    "no-answers.json": squad(answers=[]),
    "impossible.json": squad(answers=[], is_impossible=True),
    "moved.json": squad(answers=[{**ANSWER, "answer_start": 3}]),
    "blimp.jsonl": '{"sentence_good": "a film", "sentence_bad": "a films"}\n',
    "pairs.tsv": "query\tpositive\ngood film\tbad film\n",
    "file": "",
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
        random_model(model, **labels).save_pretrained(folder / name, tokenizer=tokenizer)
    model = random_model("BertClassifier", **labels)
    model.save_pretrained(folder / "hf", tokenizer=tokenizer, format="huggingface")
    (folder / "hf" / "tokenizer.json").unlink()
    for name, file, change in (
        ("no-config", "config.json", None),
        ("three-heads", "config.json", lambda text: text.replace(b'heads": 2', b'heads": 3')),
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
NER = "finetune ner --from pretrainer --train train.conll --dev train.conll --output new"
SST2 = "finetune sst2 --from pretrainer --output new --max-length 9"
SQUAD1 = "finetune squad1 --from pretrainer --train squad.json --dev squad.json --output new"
RETRIEVAL = "finetune retrieval --from sentences --train pairs.tsv --dev pairs.tsv --output new"
PRETRAIN = "pretrain demo --records records --output new"
EVALUATE = "evaluate classifier --task classification --data train.tsv --set max_length=12"
PREDICT = (
    "predict classifier --task classification --data train.tsv --output new.tsv --set max_length=12"
)
EXPORT = "export classifier name --output new"
# name of the mistake -> (arguments, the wrong value, or the right one, in the message)
MISTAKES = {
    "option of transformers": (FINETUNE + " --lr 1", "--lr is --learning-rate here"),
    "underscores": (FINETUNE + " --learning_rates 1", "did you mean '--learning-rates'"),
    "setting without --set": (FINETUNE + " patience=3", "a setting is --set patience=3"),
    "setting without =": (FINETUNE + " --set patience", "'patience'"),
    "value of a setting": (FINETUNE + " --set num_epochs=many", "many"),
    "size": (PRETRAIN + " --set size=huge", "huge"),
    "size of a layer": (PRETRAIN + " --set size=L-2_H-1000000000_A-10", "1000000000"),
    "batch size 0": (FINETUNE + " --batch-size 0", "not '0'"),
    "epochs": (FINETUNE + " --epochs 9999999999", "--epochs is 9999999999; expected at most"),
    "seed": (FINETUNE + " --set seed=-1", "seed is -1"),
    "seed of a study": (FINETUNE + " --seed 3 --seeds 2", "seed"),
    "rates": (FINETUNE + " --learning-rates 1e-3 nan", "nan"),
    "no number": (FINETUNE + " --learning-rate fast", "expected a number such as 3e-5, not 'fast'"),
    "optimizer": (PRETRAIN + " --set optimizer=adamm", "adamm"),
    "workers": (FINETUNE + " --strategy multiworker", "TF_CONFIG"),
    "TPU": (FINETUNE + " --strategy tpu", "TPU"),
    "choice": (RETRIEVAL + " --set loss=mean", "mean"),
    "precision": (FINETUNE + " --precision float8", "float8"),
    "records that are none": (PRETRAIN + " --records exported", "no records"),
    "records without a vocabulary": (PRETRAIN + " --records records-alone", "vocab.txt"),
    "output that is taken": (PRETRAIN + " --output full", "full"),
    "output that is a file": (PRETRAIN + " --output file", "file"),
    "model": (FINETUNE + " --from none", "supported are models of the kinds bert, albert"),
    "folder without a model": (FINETUNE + " --from full", "full"),
    "no config.json": (FINETUNE + " --from no-config", "config.json"),
    "no vocabulary": (FINETUNE + " --from no-vocabulary", "no-vocabulary"),
    "heads": (FINETUNE + " --from three-heads", "3"),
    "other vocabulary": (FINETUNE + " --from other-vocabulary", "vocabulary"),
    "truncated weights": (FINETUNE + " --from truncated", "model.safetensors"),
    "max_length": (FINETUNE + " --max-length 17", "17"),
    "no training file": (FINETUNE.replace("--train train.tsv", ""), "--train FILE"),
    "folder and file": (FINETUNE + " --data full", "--data and --train"),
    "column": (FINETUNE + " --set text_columns=title", "'title'"),
    "label column": (FINETUNE + " --set label_column=mood", "'mood'"),
    "unknown label": (FINETUNE + " --dev unknown-label.tsv", "'mixed'"),
    "empty label": (FINETUNE + " --train empty-label.tsv", "empty-label.tsv, line 4"),
    "row without a text": (FINETUNE + " --train empty-text.tsv", "empty-text.tsv, line 4"),
    "one label": (FINETUNE + " --train one-label.tsv --dev one-label.tsv", "only the label"),
    "list as text": (FINETUNE + " --train list.jsonl", "list.jsonl, line 1"),
    "no JSON": (FINETUNE + " --train no-json.jsonl", "no-json.jsonl, line 2"),
    "deep JSON": (FINETUNE + " --train deep.jsonl", "deep.jsonl, line 1"),
    "open quote": (FINETUNE + " --train quote.csv", "line 2"),
    "encoding": (FINETUNE + " --train latin1.tsv", "latin1.tsv, line 2"),
    "data set": (SST2 + " --data tfds:gleu/sst2", "gleu"),
    "number": (FINETUNE.replace("classification", "regression") + " --train numbers.tsv", "many"),
    "table for ner": (NER + " --train quote.csv", "a file in CoNLL format"),
    "table for GLUE": (FINETUNE.replace("classification", "mrpc"), "the task classification"),
    "table without an ending": (FINETUNE + " --train file", "file is not a .tsv"),
    "two texts": (FINETUNE.replace("classification", "retrieval"), "query_column=NAME positive_"),
    "fewer columns": (FINETUNE.replace("classification", "sentence-pairs"), "columns=NAME score_"),
    "list for squad": (SQUAD1 + " --train list.json", "not in SQuAD's format; expected"),
    "one column": (NER + " --train one-column.conll", "one-column.conll"),
    "tag schemes": (NER + " --train mixed.conll", "S-LOC"),
    "no documents": (NER + " --set context=document", "train.conll"),
    "no answers": (SQUAD1 + " --train no-answers.json", "q1"),
    "no answer in squad1": (SQUAD1 + " --train impossible.json", "q1"),
    "moved answer": (SQUAD1 + " --train moved.json", "'good' is not at character 3, where ' riv'"),
    "max_length of a model": (PREDICT + " --set max_length=99", "99"),
    "model of another task": (EVALUATE + " --task squad1", "BertClassifier"),
    "run without a model": (EVALUATE.replace("classifier", "run"), "run is a run without a model"),
    "records as a model": ("predict records text", "records is a folder of records"),
    "folder of pairs": ("evaluate pretrainer --task blimp --data full", "full has no .jsonl"),
    "no language model": ("evaluate sentences --task blimp --data blimp.jsonl", "SentenceEnc"),
    "task of evaluate": (FINETUNE.replace("classification", "blimp"), "evaluate MODEL --task"),
    "split": (EVALUATE.replace("train.tsv", "full") + " --split dev", "full"),
    "blank texts": ("embed sentences --data blank.txt --output new.npy", "no text"),
    "dimensions": ("embed sentences --data words.txt --output new.npy --dimensions 17", "17"),
    "prompt": ("embed sentences --data words.txt --output new.npy --prompt query", "query"),
    "texts and a file": ("predict classifier text --data train.tsv", "texts and --data"),
    "file of predictions alone": ("predict classifier --output new.tsv", "--data is missing"),
    "JSON of a file": (PREDICT + " --json", "--json is for texts"),
    "file that is read": (PREDICT.replace("new.tsv", "./train.tsv"), "is the file of --data"),
    "text as a label": (FINETUNE + " --set label_column=text", "is a text column and the label"),
    "file as a text": ("predict classifier words.txt", "give it as --data words.txt"),
    "folder as a file": (FINETUNE + " --train full", "give it as --data full"),
    "similar file": (FINETUNE + " --train train.tsvv", "did you mean 'train.tsv'"),
    "run of other settings": (FINETUNE.replace("new", "run"), "max_length was 11 and is now 12"),
    "task of a text": ("predict classifier text --task ner", "--task is for --data"),
    "output of predict": (PREDICT + " --output full", "full"),
    "submission": (PREDICT + " --submission new.zip", "AX.tsv"),
    "submission that is a folder": (PREDICT + " --submission full", "full is a folder"),
    "destination": ("convert classifier full", "full"),
    "remote source": ("convert gs://bucket/model new", "gs://bucket/model"),
    "exported model": ("convert exported/1 new", "bert-keras serve exported"),
    "file as a source": ("convert train.tsv new", "train.tsv"),
    "name of a part": ("convert classifier new --model-class BertMaskLM", "mean 'BertMaskedLM'"),
    "part of a model": ("convert classifier new --model-class BertMaskedLM", "BertMaskedLM"),
    "format without a part": ("convert electra new --format google", "google"),
    "layers": ("convert classifier new --layers 3", "3"),
    "no head": ("export electra name --output new", "BertReplacedTokenPretrainer"),
    "variant": (EXPORT + " --variant int9", "int9"),
    "variant without data": (EXPORT + " --variant int8", "--data"),
    "version": (EXPORT + " --model-version -1", "-1"),
    "taken configuration": (EXPORT + " --serving-config full", "full"),
    "name in a configuration": ("export classifier ß --output new --serving-config files", "ß"),
    "three texts": ("inspect encoder a b film -o new.html", "3 texts"),
    "text without a word": ("inspect encoder film ' ' -o new.html", "' '"),
    "long text": (f"inspect encoder '{'film ' * 15}' -o new.html", "has 17 tokens"),
    "version folder": ("serve saved/damaged/1", "saved/damaged"),
    "no version": ("serve saved/empty", "saved/empty"),
    "served version": ("serve saved/damaged --versions 7", "7"),
    "damaged version": ("serve saved/damaged --port 0", "saved/damaged/1"),
    "batch of the server": ("serve saved/damaged --port 0 --max-batch-size 0", "at least 1"),
    "corpus of the demo": ("demo --corpus none.txt --output new", "none.txt"),
    "data of a table": ("reproduce c2 --data full --output new", "full"),
    "without torch": ("convert pickled new", "pip install torch"),
}
EARLY = {  # before TensorFlow is imported
    "few examples": (FINETUNE.replace("--dev train.tsv", "") + " --train few.tsv", "--dev FILE"),
    "folder of another task": (SST2.replace("sst2", "mrpc") + " --data SST-2", "'#1 String'"),
    "no labels": (EVALUATE + " --data no-labels.tsv", "'label'"),
    "label to score": (EVALUATE + " --data unknown-label.tsv", "'mixed'"),
    "columns to predict": (PREDICT + " --set text_columns=title", "'title'"),
    "column of a variant": (EXPORT + " --data no-labels.tsv --variant int8", "label_column=NAME"),
    "one text alone": ("predict sentences film", "compares 2 texts"),
    "empty text": ("predict classifier ''", "a text is empty"),
    "misspelt folder": ("predict ./clasifier text", "did you mean 'classifier'"),
    "version that exists": ("export classifier damaged --output saved --model-version 1", "ed/2"),
    "backend": (EXPORT, "set KERAS_BACKEND=tensorflow"),
    "taken port": ("serve saved/damaged --port TAKEN", "TAKEN"),
    "port": ("serve saved/damaged --port 70000", "--port is 70000; expected 1 to 65535"),
    "host": ("serve saved/damaged --port 0 --host 192.0.2.1", "192.0.2.1"),
    "time limit": ("serve saved/damaged --timeout 0", "--timeout is 0.0; expected more than 0"),
}


@pytest.mark.parametrize("mistake", [*MISTAKES, *EARLY])
def test_a_mistake_is_one_line_and_leaves_nothing(mistake, folder, monkeypatch, capsys):
    def contents():
        paths = sorted(folder.rglob("*"))
        return paths, [path.stat().st_mtime_ns for path in paths if path.is_file()]

    arguments, value = (MISTAKES | EARLY)[mistake]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")  # serve sets it for its process
    if mistake == "without torch":
        monkeypatch.setitem(sys.modules, "torch", None)
    if mistake == "backend":
        monkeypatch.setenv("KERAS_BACKEND", "jax")
    for module in ("cli.program", "serving.server") if mistake in EARLY else ():
        monkeypatch.setattr(f"bert_keras.{module}.import_tensorflow", pytest.fail)
    before = contents()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        try:
            code = main(shlex.split(arguments.replace("TAKEN", port)))
        except SystemExit as stop:  # of argparse
            code = stop.code
    (line,) = capsys.readouterr().err.splitlines()
    assert code == 2
    assert line.startswith("bert-keras") and value.replace("TAKEN", port) in line
    assert "--debug" not in line  # which stands where no sentence was written for a mistake
    assert contents() == before
