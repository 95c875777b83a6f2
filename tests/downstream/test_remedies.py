"""What an error message of a task tells the user to do succeeds."""

import dataclasses

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.config import BertConfig
from bert_keras.downstream.catalog import named_task, task_of
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from tests.downstream.test_tfds import Unreachable

ROWS = "text\tlabel\ngood film\tpos\nbad film\tneg\n"


def classification_rows(data):
    task = named_task("classification")
    return task.read(task.files(str(data))["dev"], split="dev")


@pytest.fixture
def files(tmp_path):
    """The folder of the task's files."""
    (tmp_path / "files").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "files" / f"{name}.tsv").write_text(ROWS)
    return tmp_path / "files"


def test_a_data_set_of_hugging_face_is_read_from_files(files):
    remedy = "save it as the files of the task and pass their folder"
    with pytest.raises(InputError, match=remedy):
        classification_rows("tfds:huggingface:imdb")
    assert len(classification_rows(files)) == 2


def test_a_data_set_that_cannot_be_downloaded_is_copied_or_read_from_files(
    files, tmp_path, monkeypatch
):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    remedy = (
        r"run the command once on a machine with network access and copy its TFDS folder "
        rf"\({tmp_path}/unreachable/1.0.0\), or pass the task's files instead"
    )
    with pytest.raises(InputError, match=remedy):
        classification_rows("tfds:unreachable")
    assert len(classification_rows(files)) == 2
    dataset = tf.data.Dataset.from_tensors({"text": "good film", "label": "pos"})
    tfds.dataset_builders.store_as_tfds_dataset(
        name=Unreachable.name,
        version="1.0.0",
        data_dir=tmp_path,
        features=tfds.features.FeaturesDict({"text": tf.string, "label": tf.string}),
        split_datasets={"train": dataset, "validation": dataset},
    )
    assert len(classification_rows("tfds:unreachable")) == 1


def test_a_model_of_other_labels_than_those_of_the_task_has_another_task():
    config = BertConfig(vocab_size=9, hidden_size=8, num_layers=1, num_heads=1, max_positions=16)
    metadata = ModelMetadata(
        model="BertClassifier", config=config, lowercase=True, max_length=16, labels=("a", "b"),
        problem_type="multi_label_classification",
    )  # fmt: skip
    remedy = (
        "model has the problem_type multi_label_classification, but the task classification "
        "expects single_label_classification; use a task or a model of the same problem_type"
    )
    with pytest.raises(InputError, match=remedy):
        task_of(metadata, name="classification", source="model")
    assert task_of(metadata, name="multi-label", source="model").labels == ("a", "b")
    for kind in ("", "single_label_classification"):
        model = dataclasses.replace(metadata, problem_type=kind)
        assert task_of(model, name="classification", source="model").labels == ("a", "b")


def test_a_question_that_leaves_no_tokens_for_a_passage_is_read_with_more(subwords, tmp_path):
    """The task admits two separators; RoBERTa has three."""
    rules = read_rules(subwords["roberta"], {})
    tokenizer = tokenizer_of(rules_vocabulary(rules), lowercase=False)
    file = tmp_path / "questions.json"
    file.write_text(
        '{"data": [{"title": "", "paragraphs": [{"context": "the license", "qas": [{"id": "1", '
        '"question": "what is the license?", "answers": [{"text": "the", "answer_start": 0}]}]}]}]}'
    )
    task = dataclasses.replace(named_task("squad1"), max_length=8, max_question_length=4)
    questions = task.read(str(file), split="dev")
    with pytest.raises(InputError, match="special tokens and max_length=8; raise max_length"):
        task.encode(questions, tokenizer)
    assert dataclasses.replace(task, max_length=9).encode(questions, tokenizer)
