"""Fixtures for experiments: a small data folder, and a scale with short runs."""

import dataclasses
import json
import random

import pytest

from bert_keras.experiments.scales import Scale, Tuning
from bert_keras.runs.recipes import PRETRAIN, FinetuneRecipe

WORDS = [f"{a}{b}" for a in ("ba", "de", "fi", "go") for b in ("lu", "mi", "no", "ra", "su")]
PRETRAINING = dataclasses.replace(
    PRETRAIN["demo"],
    size="L-1_H-8_A-2",
    batch_size=8,
    num_steps=6,
    num_warmup_steps=1,
    steps_per_log=2,
    logs_per_checkpoint=1,
)
RATES = {"learning_rate": 1e-3, "learning_rates": (1e-3,)}
FINETUNING = FinetuneRecipe(batch_size=8, num_epochs=2, logs_per_epoch=2, **RATES)
LENGTH = "max_length=32"
MINIATURE = Scale(
    note="a few seconds, for tests.",
    vocab_size=120,
    max_length=32,
    recipe=PRETRAINING,
    tunings={
        "": Tuning(recipe=FINETUNING, changes=(LENGTH,)),
        "squad1": Tuning(recipe=FINETUNING, changes=(LENGTH, "stride=8", "max_question_length=8")),
        "ner-features": Tuning(
            recipe=dataclasses.replace(FINETUNING, num_epochs=1),
            changes=(LENGTH, "layers=last", "lstm_units=4"),
        ),
    },
    num_seeds=1,
    duplicates=2,
    held_out_rate=0.2,
    stand_ins={"size=L-3_H-768_A-12": "size=L-1_H-8_A-2", "size=L-6_H-768_A-3": "size=L-2_H-8_A-1"},
)


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(4, 8))).capitalize() + "."


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A corpus of 20 documents, MNLI, QNLI, MRPC without its dev set, SQuAD, NER; no SST-2."""
    folder, draw = tmp_path_factory.mktemp("data"), random.Random(1)
    documents = ["\n".join(sentence(draw) for _ in range(8)) for _ in range(20)]
    _write(folder / "corpus" / "text.txt", "\n\n".join(documents))
    for split, count in (("train", 24), ("dev_matched", 12)):
        rows = [f"{n}\t{sentence(draw)}\t{sentence(draw)}\t{label}" for n, label in
                enumerate(("neutral", "contradiction", "entailment") * (count // 3))]  # fmt: skip
        header = "index\tsentence1\tsentence2\tgold_label"
        _write(folder / "glue" / "MNLI" / f"{split}.tsv", "\n".join([header, *rows]))
    _write(folder / "glue" / "MRPC" / "train.tsv", "Quality\t#1 String\t#2 String\n1\ta\tb")
    for split in ("train", "dev"):
        _write(folder / "squad" / f"{split}-v1.1.json", json.dumps(_squad(draw)))
        sentences = [[f"{w} {'B-X' if w.startswith('go') else 'O'}" for w in
                      draw.choices(WORDS, k=6)] for _ in range(16)]  # fmt: skip
        text = "\n\n".join("\n".join(each) for each in sentences)
        _write(folder / "ner" / "wnut17" / f"{split}.conll", text)
    return folder


@pytest.fixture
def scale():
    return MINIATURE


def _squad(draw: random.Random) -> dict:
    paragraphs = []
    for number in range(8):
        context = sentence(draw)
        answer = context.split()[1]
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        qa = {"id": str(number), "question": f"{draw.choice(WORDS)}?", "answers": answers}
        paragraphs.append({"context": context, "qas": [qa]})
    return {"version": "1.1", "data": [{"title": "a", "paragraphs": paragraphs}]}


def _write(path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
