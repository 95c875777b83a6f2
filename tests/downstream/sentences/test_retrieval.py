"""The task retrieval: rows, batches, corpora, scores and prediction files."""

import dataclasses
import json
from itertools import islice

import numpy as np
import pytest

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.sentences.retrieval import QueryExample, rank_passages, ranking_scores
from bert_keras.errors import InputError

TASK = named_task("retrieval")
TRIPLETS = dataclasses.replace(TASK, negative_columns=("negative",))
ROWS = ["a film,good film,bad film", "a film,long film,short", "is long,long film,a"]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "dev.csv").write_text("\n".join(["query,positive,negative", *ROWS]) + "\n")
    return tmp_path / "dev.csv"


def test_rows_with_and_without_negatives_are_read(path):
    example, *_ = TASK.read(path, split="dev")
    assert example == QueryExample("a film", ("good film",))
    assert example.location == f"{path}, line 2"
    assert TRIPLETS.read(path, split="dev")[0].passages == ("good film", "bad film")
    path.write_text("query,positive\na,\n")
    with pytest.raises(InputError):
        TASK.read(path, split="test")


def test_training_batches_have_groups_and_no_text_twice(path, tokenizer):
    task = dataclasses.replace(TRIPLETS, query_prompt="query: ")
    encoded = task.encode(task.read(path), tokenizer)
    inputs, targets = encoded.batch(np.arange(2))
    assert inputs["input_ids"].shape == (2, 3, 6) and targets.tolist() == [0, 0]
    assert tokenizer.decode(inputs["input_ids"][0, 0]) == "[CLS] query : a film [SEP]"
    assert tokenizer.decode(inputs["input_ids"][0, 1]) == "[CLS] good film [SEP] [PAD] [PAD]"
    for batch in islice(encoded.shuffled_batches(batch_size=3, seed=1), 12):
        assert 1 not in batch or len(batch) == 1


def test_a_sentence_may_be_its_own_passage(path, tokenizer):
    """As in unsupervised SimCSE."""
    path.write_text("text\na film\nbad film\na film\n")
    task = dataclasses.replace(TASK, query_column="text", positive_column="text")
    encoded = task.encode(task.read(path), tokenizer)
    assert encoded.batch(np.arange(3))[0]["input_ids"].shape == (3, 2, 4)
    batches = encoded.shuffled_batches(batch_size=3, seed=1)
    first, second = sorted(sorted(next(batches).tolist()) for _ in range(2))
    assert (first, second) in (([0], [1, 2]), ([0, 1], [2]))


def test_the_corpus_is_that_of_the_file(path, tokenizer):
    task = dataclasses.replace(TRIPLETS, passage_prompt="passage:")
    encoded = task.encode_to_score(task.read(path, split="dev"), tokenizer)
    assert encoded.corpus == ("good film", "bad film", "long film", "short", "a")
    assert encoded.query_rows == [5, 5, 6] and encoded.passage_rows == [[0, 1], [2, 3], [2, 4]]
    assert len(encoded) == 7
    (inputs,) = encoded.batch(np.array([1]))
    assert tokenizer.decode(inputs["input_ids"][0]) == "[CLS] passage : bad film [SEP]"


def test_scores_and_prediction_files(path, tmp_path, tokenizer):
    task = dataclasses.replace(TRIPLETS, cutoff=2)
    examples = task.read(path, split="dev")
    encoded = task.encode_to_score(examples, tokenizer)
    corpus = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1]]
    vectors = np.array([*corpus, [2, 0.1, 0], [-1, 3, 1]], np.float32)
    predictions = task.predictions(examples, encoded, [*vectors])
    first = ("good film", "bad film")
    assert [each.passages for each in predictions] == [first, first, ("long film", "a")]
    assert predictions[2].example_cosines == pytest.approx((3 / 11**0.5, 4 / 22**0.5))
    scores = task.score(examples, predictions)
    assert scores["recall@2"] == pytest.approx((1 / 2 + 1) / 2)  # of two distinct queries
    assert scores["triplet_accuracy"] == 1.0 and scores["accuracy@1"] == 1.0
    assert scores["ndcg@2"] == pytest.approx((1 / (1 + 1 / np.log2(3)) + 1) / 2)
    task.write_predictions(tmp_path / "p.jsonl", examples, predictions)
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert first["query"] == "a film" and first["passages"] == ["good film", "bad film"]
    assert first["cosines"] == list(predictions[0].cosines)


def test_ranking_keeps_the_order_of_equal_passages_and_scores_missing_ones():
    random = np.random.default_rng(0)
    queries, passages = random.normal(size=(7, 3)), random.normal(size=(5, 3))
    passages[3] = passages[1]
    indices, cosines = rank_passages(queries, passages, cutoff=4, max_cosines=8)
    expected = np.argsort(-(queries @ passages.T), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, expected)
    assert (np.diff(cosines) <= 0).all()
    assert rank_passages(queries, passages, cutoff=9)[0].shape == (7, 5)
    scores = ranking_scores([{"a"}, {"a", "b"}], [["b", "c"], ["c", "b"]], cutoff=3)
    gain = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    expected = {"ndcg@3": gain / 2, "mrr@3": 0.25, "recall@3": 0.25, "accuracy@1": 0.0}
    assert scores == pytest.approx(expected)


def test_prompts_are_stored_in_the_embedding():
    config = BertConfig(vocab_size=9, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)
    source = ModelMetadata(model="BertEncoder", config=config, lowercase=True, max_length=16)
    assert TASK.embedding(source).prompts == {}
    task = dataclasses.replace(TASK, query_prompt="query: ")
    assert task.embedding(source).prompts == {"query": "query: ", "document": ""}
