"""The task retrieval: rows, batches, corpora, scores and prediction files."""

import dataclasses
import json
from itertools import islice

import numpy as np
import pytest

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.sentences.retrieval import QueryExample, ranked, ranking_scores
from bert_keras.errors import InputError

TASK = named_task("retrieval")
TRIPLETS = dataclasses.replace(TASK, negative_columns=("negative",))
HEADER = "query,positive,negative,margin"
ROWS = ["a film,good film,bad film,1.5", "a film,long film,short,-2", "is long,long film,a,0"]


@pytest.fixture
def file(tmp_path):
    def file(rows=ROWS, header=HEADER, name="dev.csv"):
        (tmp_path / name).write_text("\n".join([header, *rows]) + "\n")
        return tmp_path / name

    return file


def test_rows_with_and_without_negatives_and_margins_are_read(file):
    path = file()
    example, *_ = TASK.read(path, split="dev")
    assert example == QueryExample("a film", ("good film",))
    assert example.location == f"{path}, line 2"
    assert TRIPLETS.read(path, split="dev")[0].passages == ("good film", "bad film")
    distilled = dataclasses.replace(TRIPLETS, loss="margin-mse", margin_columns=("margin",))
    assert [each.margins for each in distilled.read(path)] == [(1.5,), (-2,), (0,)]
    assert distilled.read(path, split="dev")[0].margins == ()
    path = file(["a film,"], "query,positive", "test.csv")
    (query,) = TRIPLETS.read(path, split="test")
    assert query == QueryExample("a film", ())
    with pytest.raises(InputError, match=r"test.csv, line 2 has no label"):
        TRIPLETS.check_labels([query])


def test_training_batches_have_groups_and_no_text_twice(file, tokenizer):
    distilled = dataclasses.replace(
        TRIPLETS, loss="margin-mse", margin_columns=("margin",), query_prompt="query: "
    )
    encoded = distilled.encode(distilled.read(file()), tokenizer)
    inputs, margins = encoded.batch(np.arange(2))
    assert inputs["input_ids"].shape == (2, 3, 6) and margins.tolist() == [[1.5], [-2]]
    assert tokenizer.decode(inputs["input_ids"][0, 0]) == "[CLS] query : a film [SEP]"
    assert tokenizer.decode(inputs["input_ids"][0, 1]) == "[CLS] good film [SEP] [PAD] [PAD]"
    for batch in islice(encoded.shuffled_batches(batch_size=3, seed=1), 12):
        assert 1 not in batch or len(batch) == 1


def test_the_corpus_is_that_of_the_file_and_of_the_setting(file, tmp_path, tokenizer):
    examples = TRIPLETS.read(file(), split="dev")
    encoded = TRIPLETS.encode_to_score(examples, tokenizer)
    assert encoded.corpus == ("good film", "bad film", "long film", "short", "a")
    assert encoded.query_rows == [5, 5, 6] and encoded.passage_rows == [[0, 1], [2, 3], [2, 4]]
    assert len(encoded) == 7
    (tmp_path / "corpus.txt").write_text("a bad query\ngood film\n")
    more = dataclasses.replace(TASK, corpus=str(tmp_path / "corpus.txt"), passage_prompt="passage:")
    encoded = more.encode_to_score(examples, tokenizer)
    assert encoded.corpus[-1] == "a bad query" and len(encoded.corpus) == 6
    (inputs,) = encoded.batch(np.array([5]))
    assert tokenizer.decode(inputs["input_ids"][0]) == "[CLS] passage : a bad query [SEP]"
    query = [QueryExample("a film", (), (), "test.csv, line 2")]
    with pytest.raises(InputError, match="no passages to rank; set corpus"):
        TASK.encode_to_score(query, tokenizer)
    assert more.encode_to_score(query, tokenizer).corpus == ("a bad query", "good film")


def test_scores_of_each_size_and_prediction_files(file, tmp_path, tokenizer):
    task = dataclasses.replace(TRIPLETS, cutoff=2, dimensions=(3, 1))
    examples = task.read(file(), split="dev")
    encoded = task.encode_to_score(examples, tokenizer)
    vectors = np.array(
        [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [2, 0.1, 0], [-1, 3, 1]], np.float32
    )
    predictions = task.predictions(examples, encoded, list(vectors))
    assert [p.value.passages for p in predictions] == [
        ("good film", "bad film"), ("good film", "bad film"), ("long film", "a")
    ]  # fmt: skip
    assert predictions[2].value.example_cosines == pytest.approx((3 / 11**0.5, 4 / 22**0.5))
    scores = task.score(examples, predictions)
    assert scores["recall@2"] == pytest.approx((1 / 2 + 1) / 2)  # of two distinct queries
    assert scores["triplet_accuracy"] == 1.0 and scores["accuracy@1"] == 1.0
    assert scores["ndcg@2"] == pytest.approx((1 / (1 + 1 / np.log2(3)) + 1) / 2)
    assert {"ndcg@2_1d", "mrr@2_1d", "triplet_accuracy_1d"} < {*scores} and len(scores) == 10
    path = tmp_path / "predictions.jsonl"
    task.write_predictions(path, examples, predictions)
    again = task.read_predictions(path, examples)
    assert [each.value for each in again] == [each.value for each in predictions]
    complete = {name: value for name, value in scores.items() if not name.endswith("_1d")}
    assert task.score(examples, again) == complete
    lines = path.read_text().splitlines()
    for texts, message in (
        (lines[:1], "has 1 ranking; expected 3"),
        (["[1]", *lines[1:]], "line 1 is no ranking"),
        (["{}", *lines[1:]], "line 1 is no ranking"),
        (lines[::-1], "line 1 has another query"),
        ([*lines, lines[0]], "line 4 is no ranking"),
    ):
        path.write_text("\n".join(texts))
        with pytest.raises(InputError, match=message):
            task.read_predictions(path, examples)


def test_ranking_keeps_the_order_of_equal_passages_and_scores_missing_ones(monkeypatch):
    monkeypatch.setattr("bert_keras.downstream.sentences.retrieval.MAX_COSINES", 8)
    random = np.random.default_rng(0)
    queries, passages = random.normal(size=(7, 3)), random.normal(size=(5, 3))
    passages[3] = passages[1]
    indices, cosines = ranked(queries, passages, most=4)
    expected = np.argsort(-(queries @ passages.T), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, expected)
    assert (np.diff(cosines) <= 0).all()
    assert ranked(queries, passages, most=9)[0].shape == (7, 5)
    scores = ranking_scores([{"a"}, {"a", "b"}], [["b", "c"], ["c", "b"]], cutoff=3)
    gain = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    expected = {"ndcg@3": gain / 2, "mrr@3": 0.25, "recall@3": 0.25, "accuracy@1": 0.0}
    assert scores == pytest.approx(expected)
    assert ranking_scores([{"a"}], [[]], cutoff=3) == dict.fromkeys(expected, 0.0)


def test_prompts_are_stored_in_the_embedding():
    config = BertConfig(vocab_size=9, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)
    source = ModelMetadata(model="BertEncoder", config=config, lowercase=True, max_length=16)
    assert TASK.embedding(source).prompts == {}
    task = dataclasses.replace(TASK, query_prompt="query: ")
    assert task.embedding(source).prompts == {"query": "query: ", "document": ""}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"loss": "triplet"}, "negative_columns has 0 names"),
        ({"loss": "margin-mse"}, "margin_columns has 0 names"),
        ({"margin_columns": ("margin",)}, "margin_columns.* has no effect"),
        ({"cutoff": 0}, "cutoff is 0"),
    ],
)
def test_wrong_settings_are_refused(settings, field):
    with pytest.raises(InputError, match=field):
        dataclasses.replace(TASK, **settings)


def test_json_lines_and_empty_texts(tmp_path):
    path = tmp_path / "dev.jsonl"
    path.write_text(json.dumps({"query": "a", "positive": ""}) + "\n")
    with pytest.raises(InputError, match=r"dev.jsonl, line 1 has an empty positive; expected a te"):
        TASK.read(path, split="dev")
