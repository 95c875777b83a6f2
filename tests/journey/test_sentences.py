"""Retrieval: finetune, evaluate, predict, and the model in Python."""

import json
import random
from pathlib import Path

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, BertSentenceEncoder
from bert_keras.cli import main
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.factories import WORDS, tiny_config, tiny_vocabulary

SETTINGS = "num_epochs=6 batch_size=16 learning_rate=0.01 max_length=12 dimensions=16,8"


@pytest.mark.slow
def test_retrieval(tmp_path, capsys):
    source = random.Random(1)
    for split, count in (("train", 96), ("dev", 40)):
        rows = [("query", "positive", "negative")]
        for _ in range(count):
            first, other = (source.choices(WORDS, k=source.randint(3, 8)) for _ in range(2))
            rows.append((" ".join(first), " ".join(first[::-1]), " ".join(other)))
        (tmp_path / f"{split}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    keras.utils.set_random_seed(1)
    encoder = BertEncoder(tiny_config(num_layers=1, max_positions=16))
    encoder.save_pretrained(tmp_path / "encoder", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    dev, model, output = (str(tmp_path / n) for n in ("dev.tsv", "run/model", "rankings.jsonl"))
    paths = f"--train {tmp_path}/train.tsv --dev {dev} --from {tmp_path}/encoder"
    settings = f"--set {SETTINGS} negative_columns=negative"
    assert main(f"finetune retrieval {paths} --output {tmp_path}/run {settings}".split()) == 0
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["ndcg@10"] > 0.5 and scores["triplet_accuracy"] > 0.8
    assert {"mrr@10", "recall@10"} < {*scores} and "loss" not in scores
    capsys.readouterr()
    assert main(["evaluate", model, "--data", dev, "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated == {name: scores[name] for name in evaluated} and len(evaluated) > 1
    assert main(["predict", model, "--data", dev, "--output", output]) == 0
    rankings = [json.loads(line) for line in Path(output).read_text().splitlines()]
    assert len(rankings) == 40 and len(rankings[0]["passages"]) == 10
    loaded = BertSentenceEncoder.from_pretrained(model)
    query, passages = rankings[0]["query"], rankings[0]["passages"]
    cosines = loaded.encode(passages) @ loaded.encode([query])[0]
    np.testing.assert_allclose(cosines, rankings[0]["cosines"], rtol=0, atol=1e-5)
