"""The task sentence-pairs: rows, batches, scores and prediction files."""

import dataclasses
import json

import numpy as np
import pytest

from bert_keras.config import BertConfig, EmbeddingConfig, ModelMetadata
from bert_keras.downstream.catalog import named_task, task_of
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.errors import InputError

TASK = named_task("sentence-pairs")
HEADER = "index\tsentence1\tsentence2\tscore"
ROWS = ["0\ta good film\ta film\t4.5", "1\ta bad film\tis long\t0", "2\tlong\tshort\t2.000"]
CONFIG = BertConfig(vocab_size=20, hidden_size=8, num_layers=1, num_heads=2, max_positions=16)


def write(path, header=HEADER, rows=ROWS):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def pairs(*scores):
    return [SentencePair(("a", "b"), score, f"dev.tsv, line {n}") for n, score in enumerate(scores)]


def test_files_of_stsb_and_json_lines_are_read(tmp_path):
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.tsv")
    files = TASK.files(tmp_path)
    first, *_, last = TASK.read(files["dev"], split="dev")
    assert first == SentencePair(("a good film", "a film"), 4.5, f"{files['dev']}, line 2")
    assert last.score == 2
    (tmp_path / "test.jsonl").write_text(json.dumps({"one": "a", "two": "b"}) + "\n")
    task = dataclasses.replace(TASK, text_columns=("one", "two"))
    (unlabelled,) = task.read(tmp_path / "test.jsonl", split="test")
    assert unlabelled.score is None
    with pytest.raises(InputError):
        task.check_labels([unlabelled])


def test_a_batch_has_two_texts_and_a_score_per_example(tmp_path, tokenizer):
    task = dataclasses.replace(TASK, max_score=5.0, max_length=4)
    encoded = task.encode(task.read(write(tmp_path / "train.tsv")), tokenizer)
    assert encoded.lengths.tolist() == [4, 4, 3]  # longer texts are cut
    inputs, scores = encoded.batch(np.array([0, 2]))
    assert scores.tolist() == pytest.approx([0.9, 0.4]) and scores.dtype == np.float32
    assert inputs["input_ids"].shape == (2, 2, 4)
    texts = tokenizer.decode(inputs["input_ids"][0, 0]), tokenizer.decode(inputs["input_ids"][1, 1])
    assert texts == ("[CLS] a good [SEP]", "[CLS] short [SEP] [PAD]")
    assert not inputs["segment_ids"].any()


@pytest.mark.parametrize(
    ("size", "cosines", "spearman"), [(0, [0, 0.6, 0.8], 1.0), (2, [0, 1, 0.8], 0.5)]
)
def test_scores_of_complete_and_cut_embeddings(tmp_path, size, cosines, spearman):
    task, examples = dataclasses.replace(TASK, truncate_dim=size), pairs(0.0, 1.0, 2.0)
    vectors = np.zeros((3, 2, 3), np.float32)
    vectors[:, 0, 0] = 2  # the first text of each pair
    vectors[:, 1] = [[0, 1, 0], [3, 0, 4], [4, 3, 0]]
    predictions = task.predictions(examples, None, list(vectors))
    assert predictions == pytest.approx(cosines)
    scores = task.score(examples, predictions)
    assert [*scores] == ["spearman", "pearson"] and scores["spearman"] == pytest.approx(spearman)
    task.write_predictions(tmp_path / "p.tsv", examples, predictions)
    rows = [line.split("\t") for line in (tmp_path / "p.tsv").read_text().splitlines()]
    assert rows[0] == ["index", "cosine"]
    assert [float(cosine) for _, cosine in rows[1:]] == predictions


def test_errors_name_the_file_and_line(tmp_path):
    task, path = dataclasses.replace(TASK, loss="cosine"), tmp_path / "dev.tsv"
    for row in ("0\ta\t \t1", "0\ta\tb\t", "0\ta\tb\t4"):  # 4 is above max_score
        with pytest.raises(InputError, match=r"dev.tsv, line 2 "):
            task.read(write(path, rows=[row]), split="dev")


def test_wrong_settings_are_refused():
    for field, value in {"loss": "mse", "truncate_dim": -1, "max_score": 0.0}.items():
        with pytest.raises(InputError):
            dataclasses.replace(TASK, **{field: value})


def metadata(model="BertEncoder", **fields):
    return ModelMetadata(model=model, config=CONFIG, lowercase=True, max_length=16, **fields)


def test_the_embedding_is_that_of_the_checkpoint_with_the_pooling_of_the_task():
    assert TASK.embedding(metadata()) == EmbeddingConfig()
    cls = dataclasses.replace(TASK, pooling=("cls",), dimensions=(8, 4))
    assert cls.embedding(metadata()).pooling == ("cls",)
    stored = EmbeddingConfig(pooling=("max",), prompts={"q": "q: "}, default_prompt_name="q")
    source = metadata("BertSentenceEncoder", embedding=stored)
    assert TASK.embedding(source) == dataclasses.replace(stored, default_prompt_name=None)
    wrong = dataclasses.replace(TASK, dimensions=(9, 4), truncate_dim=9)
    with pytest.raises(InputError):
        wrong.embedding(metadata())
    with pytest.raises(InputError):
        wrong.predictions(pairs(1.0), None, [np.ones((2, 8))])


def test_models_of_other_tasks_are_scored():
    settings = {"name": "retrieval", "max_length": 8}
    source = metadata("BertSentenceEncoder", embedding=EmbeddingConfig(), task=settings)
    task = task_of(source, name="sentence-pairs", source="model")
    assert task == dataclasses.replace(TASK, max_length=16)
