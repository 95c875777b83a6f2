"""Runs every stage once, from a text corpus to a served prediction, in minutes on two CPU cores."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tqdm import tqdm

from bert_keras.downstream.table import table_rows
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, write_text
from bert_keras.runs.export import export
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.settings import pretrain_settings
from bert_keras.serving.client import Client
from bert_keras.serving.container_files import instructions
from bert_keras.serving.server import running_server
from tfrecords_tools.build import build
from tfrecords_tools.corpus import corpus_files, read_documents
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab import train_vocabulary

VOCABULARY_SIZE = 4_000
COLUMNS = ("text", "label")
NUM_LABELS = 4  # one label for each of the longest documents of the corpus
MIN_WORDS = 6  # shorter paragraphs hardly depend on their document
DEV_RATE = 0.2  # fraction of the paragraphs that is held out
HELD_OUT_RATE = 0.03  # fraction of the documents on which the pretrained model is scored
NUM_LABELLED = 80  # paragraphs with `pretrained`: too few for a model of words alone
FEW_LABELS = {"batch_size": 8, "num_epochs": 15, "learning_rate": 1e-4}


def demo(
    *,
    corpus: Sequence[StrPath] = (),
    pretrained: StrPath | None = None,
    output: StrPath,
    num_steps: int | None = None,
    seed: int = 1,
) -> Path:
    """Runs every stage in a new numbered folder, prints its contents and returns it.

    The classifier predicts to which of the longest documents of the corpus a paragraph belongs.

    Args:
        corpus: Text files, in which a blank line ends a document; by default Python's reference.
        pretrained: A checkpoint to use instead of pretraining.
    """
    changes = {"seed": seed} if num_steps is None else {"seed": seed, "num_steps": num_steps}
    recipe, _ = pretrain_settings("demo", teacher=None, changes=changes)
    files = corpus and corpus_files(corpus)
    numbered = (Path(output, str(number)) for number in itertools.count(1))
    folder = next(path for path in numbered if not path.exists())  # keeps folders of older demos
    folder.mkdir(parents=True)
    print(f"bert-keras demo: all results are written to {folder}\n")
    files = files or [_write_language_reference(folder / "corpus.txt")]
    example = _write_rows(files, folder, seed=seed, num_train=NUM_LABELLED if pretrained else None)
    if pretrained is None:
        vocabulary = train_vocabulary(files, size=VOCABULARY_SIZE)
        vocabulary.save(folder / "vocab.txt")
        shares = {"duplicates": 25, "held_out_rate": HELD_OUT_RATE, "seed": seed}
        settings = BuildSettings(max_length=64, max_predictions=10, **shares)
        records = folder / "records"
        manifest = build(files, vocabulary=vocabulary, output=records, settings=settings)
        train = manifest["splits"]["train"]
        counts = f"{train['records']:,} records of {train['documents']} documents"
        print(f"  {len(vocabulary):,} tokens; {counts}\n", flush=True)
        scores = pretrain(recipe, records=records, output=folder / "pretrain").scores
        names = (f"{name}_masked_lm_loss" for name in ("held_out", "copying", "unigram"))
        ours, copying, unigram = (f"{scores[name]:.3f}" for name in names)
        print(
            f"  {scores['parameters']:,} parameters, {scores['steps']} steps\n"
            f"  masked-LM loss on held-out documents: {ours}; of copying the input token: "
            f"{copying}; of the token frequencies: {unigram}\n",
            flush=True,
        )
        _finetune(folder, folder / "pretrain" / "model", recipe="demo", seed=seed)
    else:
        _finetune(folder, pretrained, recipe="small-models", seed=seed, **FEW_LABELS)
    _export_and_predict(folder, example)
    return folder


def _finetune(folder: Path, pretrained: StrPath, *, recipe: str, **changes) -> None:
    files = {split: folder / f"{split}.tsv" for split in ("train", "dev")}
    arguments = {"pretrained": pretrained, "data": files, "output": folder / "finetune"}
    scores = finetune("classification", recipe, **arguments, max_length=64, **changes).scores
    rows = [[row for _, row in table_rows(file, columns=COLUMNS)] for file in files.values()]
    train, dev = ([[row[name] for row in split] for name in COLUMNS] for split in rows)
    words = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)).fit(*train)
    print(
        f"  {len(train[0])} labelled paragraphs; accuracy on {len(dev[0])} held-out ones: "
        f"{scores['accuracy']:.1%}; of logistic regression on TF-IDF: {words.score(*dev):.1%}; of "
        f"the most frequent label: {scores['majority_accuracy']:.1%}\n",
        flush=True,
    )


def _export_and_predict(folder: Path, example: str) -> None:
    """Exports and serves the classifier, prints its prediction for `example` and the next steps."""
    saved_model = export(folder / "finetune" / "model", folder / "saved_models" / "demo" / "1")
    path = "/v1/models/demo:predict"
    with running_server(saved_model.parent) as url, Client(f"{url}{path}") as client:
        (prediction,) = client.predict([example])
    request = json.dumps({"instances": [example]}, ensure_ascii=False)
    print(f"POST {path} {request}\n{json.dumps(prediction, indent=2, ensure_ascii=False)}\n")
    contents = {
        "vocab.txt, records/": f"to print records: bert-tfrecords show {folder}/records",
        "pretrain/model/": "to load it in Python: bert_keras.load_model",
        "finetune/model/": "to load it in Python: bert_keras.load_model",
        "train.tsv, dev.tsv": "training and evaluation data of the classifier",
        "saved_models/demo/1/": "the SavedModel for TF Serving",
    }
    print(f"Contents of {folder}:")
    for paths, text in contents.items():
        if (folder / paths.split(", ")[0]).exists():
            print(f"  {paths:<22}{text}")
    print(f"\n{instructions(saved_model)}\n")
    print(f"Show the training curves:\n  tensorboard --logdir {folder}")


def _write_language_reference(path: Path) -> Path:
    """Writes CPython's `pydoc_data.topics`, without tables and code: a document for each topic."""
    # A paragraph of several topics remains only in the longest one: held-out documents are new.
    from pydoc_data.topics import topics

    texts, written = {}, set()
    by_length = sorted(topics, key=lambda name: (-len(topics[name]), name))
    for name in tqdm(by_length, desc="read corpus", unit=" topics"):
        paragraphs = []
        for paragraph in topics[name].split("\n\n"):
            lines = paragraph.split("\n")
            prose = [line.strip() for line in lines if set(line.strip()) - set("*=-^~#.")]
            text, is_title = " ".join(prose), len(prose) < len(lines)
            is_code = all(line.startswith("     ") for line in lines)
            if is_code or text.startswith(("+-", "|", ">>>")) or text in written:
                continue
            if text and (is_title or len(text.split()) > 3):
                paragraphs.append(text)
        written.update(paragraphs)
        texts[name] = "\n".join(paragraphs)
    write_text(path, "".join(f"{texts[name]}\n\n" for name in sorted(texts) if texts[name]))
    return path


def _write_rows(files: Sequence[StrPath], folder: Path, *, seed: int, num_train: int | None) -> str:
    """Writes distinct paragraphs with labels as train.tsv and dev.tsv; returns one of dev.tsv."""
    labelled = []
    for lines in read_documents(files, stage="label paragraphs"):
        texts = [line for line in lines if "\t" not in line and len(line.split()) >= MIN_WORDS]
        labelled.append((" ".join(lines[0].split()[:5]), texts))
    longest = sorted(labelled, key=lambda each: -len(each[1]))[:NUM_LABELS]
    counts = Counter(text for _, texts in longest for text in texts)
    labels = [label for label, _ in longest]
    if len(set(labels)) < len(labels):
        labels = [f"{number}: {label}" for number, label in enumerate(labels, start=1)]
    rows = [
        (text, label)
        for label, (_, texts) in zip(labels, longest, strict=True)
        for text in texts
        if counts[text] == 1
    ]
    random.Random(seed).shuffle(rows)
    num_dev = round(DEV_RATE * len(rows))
    dev, train = rows[:num_dev], rows[num_dev:][:num_train]
    train_labels = {label for _, label in train}
    if not num_dev or len(train_labels) < 2 or train_labels != {label for _, label in rows}:
        size = f"{counted(len(rows), 'unique paragraph')} of {MIN_WORDS} or more words"
        raise InputError(f"the corpus has {size}, too few for a classifier; use a larger one")
    for name, part in (("dev.tsv", dev), ("train.tsv", train)):
        lines = ["\t".join(row) for row in (COLUMNS, *part)]
        write_text(folder / name, "\n".join(lines) + "\n")
    return rows[0][0]
