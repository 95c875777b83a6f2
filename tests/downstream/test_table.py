"""Tables in TSV, CSV, JSON and TFDS: values and error messages."""

import pytest
import tensorflow_datasets as tfds

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.table import table_rows
from bert_keras.errors import InputError
from tests.tensorflow_or_skip import tf

SQUAD_FEATURES = {
    **dict.fromkeys(("id", "question", "context"), tf.string),
    "answers": tfds.features.Sequence({"text": tf.string, "answer_start": tf.int32}),
    "is_impossible": tf.bool,
}
ANSWERS = {"text": ["Lyon"], "answer_start": [0]}
SQUAD_ROW = {"id": "q1", "question": "who?", "context": "Lyon won.", "answers": ANSWERS}


def read_table(path, text, *columns):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    rows = table_rows(path, columns=columns, lists=("l",))
    return [[row[column] for column in columns] for _, row in rows]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tsv", '\ufefft\tl\nhe said "no\t0\nb , \t1\n', [['he said "no', "0"], ["b , ", "1"]]),
        ("a.csv", 'l,t\r\nx,"one, ""two""\nthree"\r\ny,four\r\n',
         [['one, "two"\nthree', "x"], ["four", "y"]]),
        ("a.csv", f"t,l\n{'a' * 200_000},x\n", [["a" * 200_000, "x"]]),
        ("a.csv", "sep=;\nt;l\na, b;x\n", [["a, b", "x"]]),
        *(("a.csv", text.replace(";", mark), [["a, b", "x"]])
          for text in ("t;l;n\n\"a, b\";x;1,5\n",) for mark in ";\t|"),
        ("a.jsonl", '{"t": "café", "l": 1, "x": {}}\n\n{"t": "b", "l": true}\n',
         [["café", "1"], ["b", "true"]]),
    ],
)  # fmt: skip
def test_values_of_each_format(tmp_path, name, text, expected):
    assert read_table(tmp_path / name, text, "t", "l") == expected
    text = '[{"t": "café", "l": {"n": 1.5, "m": {"k": true}}}]'
    assert read_table(tmp_path / "a.json", text, "t", "l.n", "l.m.k") == [["café", "1.5", "true"]]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.tsv", "t\tl\n", ""),  # without a row
        ("a.tsv", "t\tl\na\tb\nc\n", ", line 3 "),
        ("a.csv", "t,l\na, b,c\n", ", line 2 "),
        ("a.tsv", "x\tl\na\tb\n", ""),
        ("a.csv", "t l\na b\n", ""),
        ("a.csv", b"PK\x03\x04\x14\0\x06\xe9\n", ""),
        ("a.csv", "t,l\n\uc88b\ub2e4,1\n".encode("cp949"), ", line 2 "),
        ("a.jsonl", '\n{"t": {"x": 1}}\n', ", line 2 "),
        ("a.json", '{"t": "a"}', ", item 1"),
        ("a.jsonl", '{"t": "a"}\n{"t": null}\n', ", line 2 has null"),
        ("a.jsonl", '{"t": "a", "l": ["c,d"]}\n', ", line 1 "),  # commas separate labels
        ("a.csv", "t,l,t\na,b,c\n", ", line 1 "),  # two columns of one name
        ("a.csv", "sep=;\nt;l\na\n", ", line 3 "),
    ],
)
def test_errors_name_the_file_and_line(tmp_path, name, text, place):
    with pytest.raises(InputError, match=f"{name}{place}"):
        read_table(tmp_path / name, text, "t")


def test_squad_is_read_from_a_folder_of_tfds(tmp_path):
    """The folder is written without the code of a builder."""
    dataset = tf.data.Dataset.from_tensors(SQUAD_ROW | {"is_impossible": False})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="small",
        version="1.0.0",
        data_dir=tmp_path,
        features=tfds.features.FeaturesDict(SQUAD_FEATURES),
        split_datasets={"train": dataset, "validation": dataset},
    )
    path, task = f"tfds:{tmp_path}/small/1.0.0", named_task("squad2")
    assert task.files(path) == {"train": f"{path}:train", "dev": f"{path}:validation"}
    (question,) = task.read(f"{path}:validation", split="dev")
    assert (question.id, question.answers[0].text) == ("q1", "Lyon")
