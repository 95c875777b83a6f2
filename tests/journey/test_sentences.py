"""From an encoder to sentence embeddings: finetune, evaluate, predict, and the model in Python."""

import json
import random
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, BertSentenceEncoder
from bert_keras.cli import main
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import tiny_config, tiny_vocabulary

pytestmark = pytest.mark.slow

WORDS = ("the", "a", "good", "bad", "film", "river", "bank", "was", "is", "un", ".")
SETTINGS = "num_epochs=6 batch_size=16 learning_rate=0.01 max_length=12 dimensions=16,8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random encoder, and files of sentence pairs and triplets."""
    folder, source = tmp_path_factory.mktemp("sentences"), random.Random(1)

    def sentence():
        return source.choices(WORDS, k=source.randint(3, 8))

    def write(name, header, rows):
        lines = ["\t".join(header), *("\t".join(map(str, row)) for row in rows)]
        (folder / name).write_text("\n".join(lines) + "\n")

    for split, count in (("train", 96), ("dev", 40)):
        pairs, triplets = [], []
        for _ in range(count):
            first, other = sentence(), sentence()
            kept = source.randint(0, len(first))
            second = [*first[:kept], *other[kept:]] or other
            pairs.append((" ".join(first), " ".join(second), round(5 * kept / len(first), 2)))
            triplets.append((" ".join(first), " ".join(first[::-1]), " ".join(other)))
        write(f"pairs-{split}.tsv", ("sentence1", "sentence2", "score"), pairs)
        write(f"triplets-{split}.tsv", ("query", "positive", "negative"), triplets)
    keras.utils.set_random_seed(1)
    model = BertEncoder(tiny_config(num_layers=1, max_positions=16))
    model.save_pretrained(folder / "encoder", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    return folder


def finetuned(folder, capsys, task, *, files, settings=""):
    """Fine-tunes the encoder, checks that `evaluate` gives the scores of the run, and returns the
    scores, the model folder and the dev file."""
    model, dev = str(folder / task / "model"), str(folder / f"{files}-dev.tsv")
    paths = f"--train {folder}/{files}-train.tsv --dev {dev} --from {folder}/encoder"
    options = f"--output {folder / task} --set {SETTINGS} {settings}"
    assert main(f"finetune {task} {paths} {options}".split()) == 0
    scores = json.loads((folder / task / "scores.json").read_text())
    capsys.readouterr()
    assert main(["evaluate", model, "--data", dev, "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated == {name: scores[name] for name in evaluated} and len(evaluated) > 1
    return scores, model, dev


def test_sentence_pairs(folder, capsys):
    scores, model, dev = finetuned(folder, capsys, "sentence-pairs", files="pairs")
    assert scores["spearman"] > 0.4
    assert main(["predict", model, "--data", dev]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["index", "cosine"] and len(rows) == 41

    loaded = BertSentenceEncoder.from_pretrained(model)
    pairs = [line.split("\t")[:2] for line in Path(dev).read_text().splitlines()[1:]]
    first_NE, second_NE = (loaded.encode(list(texts)) for texts in zip(*pairs, strict=True))
    cosines = [float(cosine) for _, cosine in rows[1:]]
    np.testing.assert_allclose((first_NE * second_NE).sum(axis=1), cosines, rtol=0, atol=1e-5)


def test_retrieval(folder, capsys):
    settings = "negative_columns=negative"
    scores, model, dev = finetuned(folder, capsys, "retrieval", files="triplets", settings=settings)
    assert scores["ndcg@10"] > 0.5 and scores["triplet_accuracy"] > 0.8
    assert {"mrr@10", "recall@10"} < {*scores} and "loss" not in scores
    output = folder / "rankings.jsonl"
    assert main(["predict", model, "--data", dev, "--output", str(output)]) == 0
    rankings = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rankings) == 40 and len(rankings[0]["passages"]) == 10

    loaded = BertSentenceEncoder.from_pretrained(model)
    query, passages = rankings[0]["query"], rankings[0]["passages"]
    cosines = loaded.encode(passages) @ loaded.encode([query])[0]
    np.testing.assert_allclose(cosines, rankings[0]["cosines"], rtol=0, atol=1e-5)
