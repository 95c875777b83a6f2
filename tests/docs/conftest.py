"""Models, records and a task with the names that the documentation uses."""

import json
import shutil

import keras
import pytest

from bert_keras import BertClassifier, BertConfig, BertPretrainer, BertSentenceEncoder
from bert_keras.runs.conversion import convert
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings

BASE = "google-bert/bert-base"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WORDS = ["a", "good", "bad", "film", "fine", "two", "hours", "of", "nothing", "."]


@pytest.fixture(scope="session")
def examples(tmp_path_factory):
    """Models, records and a task with the names of the pages."""
    folder = tmp_path_factory.mktemp("examples")
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *WORDS))
    config = BertConfig(vocab_size=15, hidden_size=16, num_layers=2, num_heads=2, max_positions=128)
    keras.utils.set_random_seed(1)
    tokenizer = WordPieceTokenizer(vocabulary)
    vocabulary.save(folder / "vocab.txt")
    names = ("bert-base", "bert-base-uncased", "bert-base-finetuned", "klue/bert-base")
    for name in (*names, f"{BASE}-uncased", f"{BASE}-cased"):
        BertPretrainer(config).save_pretrained(folder / name, tokenizer=tokenizer)
    options = {"tokenizer": tokenizer, "format": "sentence-transformers"}
    BertSentenceEncoder(config).save_pretrained(folder / MINILM, **options)
    convert(folder / "bert-base", folder / "small", format="bert-keras", num_layers=1)
    for name in ("demo/1/finetune/model", "film-critic"):
        model, labels = BertClassifier(config, num_labels=2), ("bad", "good")
        model.save_pretrained(folder / name, tokenizer=tokenizer, labels=labels)
    (folder / "corpus.txt").write_text("\n\n".join(["a good film .\ntwo hours of nothing ."] * 80))
    for name, num_predictions in (("records", 2), ("plain", 0)):
        settings = BuildSettings(max_length=16, max_predictions=num_predictions, shards=1)
        options = {"vocabulary": vocabulary, "settings": settings}
        build([folder / "corpus.txt"], output=folder / name, **options)
    good, fine, two = "a good film", "a fine film", "two hours of nothing"
    pairs = f"1\t1\t2\t{good}\t{fine}\n0\t3\t4\t{good}\t{two}\n"
    mrpc = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + 20 * pairs
    (folder / "glue" / "MRPC").mkdir(parents=True)
    for split in ("train", "dev"):
        (folder / "glue" / "MRPC" / f"{split}.tsv").write_text(mrpc)
    answers = [{"text": "good", "answer_start": 2}]
    questions = [{"id": f"{n}", "question": "a film", "answers": answers} for n in range(32)]
    paragraph = {"context": "a good film .", "qas": questions}
    tables = {
        "films.csv": "text,label\n" + 32 * "a good film,good\na bad film,bad\n",
        "tags.csv": "text,label\n" + 32 * 'a good film,"film,good"\na bad film,film\n',
        "ratings.csv": "text,label\n" + 32 * "a good film,4.5\na bad film,1\n",
        "endings.csv": "sent1,sent2,ending0,ending1,ending2,ending3,label\n"
        + "".join(f"a film {word},of,two hours,good,bad,nothing,0\n" for word in WORDS * 4),
        "train.conll": 32 * "a O\ngood B-X\nfilm I-X\n\nhours O\n\n",
        "train.json": json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]}),
    }
    for name, text in tables.items():
        (folder / name).write_text(text)
    copies = {"reviews.csv": "films.csv", "test.csv": "films.csv", "new.csv": "films.csv"}
    for copy, name in (copies | {"dev.conll": "train.conll", "dev.json": "train.json"}).items():
        shutil.copy(folder / name, folder / copy)
    return folder


@pytest.fixture
def folder(examples, tmp_path, monkeypatch):
    """A copy of the examples as the current directory."""
    folder = shutil.copytree(examples, tmp_path / "examples")
    monkeypatch.chdir(folder)
    return folder
