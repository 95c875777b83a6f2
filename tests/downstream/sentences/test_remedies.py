"""What an error message of a task of sentence embeddings tells the user to do succeeds."""

import dataclasses

import pytest

from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError


def test_scores_above_the_maximum_are_divided(tmp_path, tokenizer):
    path = tmp_path / "dev.tsv"
    path.write_text("sentence1\tsentence2\tscore\ngood film\tbad film\t4\n")
    task = dataclasses.replace(named_task("sentence-pairs"), loss="cosine")
    with pytest.raises(InputError, match="; set max_score to the score of equal texts"):
        task.read(path)
    task = dataclasses.replace(task, max_score=5.0)
    assert task.encode(task.read(path), tokenizer).targets.tolist() == pytest.approx([0.8])


def test_queries_without_passages_are_ranked_over_a_corpus(tmp_path, tokenizer):
    path = tmp_path / "test.tsv"
    path.write_text("query\ngood film\n")
    (tmp_path / "corpus.txt").write_text("a film\nbad film\n")
    task = named_task("retrieval")
    queries = task.read(path, split="test")
    with pytest.raises(InputError, match="; set corpus to a file of passages"):
        task.encode_to_score(queries, tokenizer)
    task = dataclasses.replace(task, corpus=str(tmp_path / "corpus.txt"))
    assert len(task.encode_to_score(queries, tokenizer)) == 3
