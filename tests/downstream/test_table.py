"""Tables in TSV, CSV and JSON Lines: values and error messages."""

import pytest

from bert_keras.downstream.table import table_rows
from bert_keras.errors import InputError


def read_table(path, *, columns):
    rows = [values for _, values in table_rows(path, columns=columns)]
    return {column: [row[column] for row in rows] for column in columns}


def write(path, text: str):
    path.write_bytes(text.encode())
    return path


def test_tsv_files_have_no_quoting(tmp_path):
    path = write(tmp_path / "a.tsv", '\ufeffsentence\tlabel\nhe said "no\t0\nyes , \t1\n')
    assert read_table(path, columns=("sentence", "label")) == {
        "sentence": ['he said "no', "yes , "],
        "label": ["0", "1"],
    }


def test_csv_values_may_contain_quotes_and_line_ends(tmp_path):
    path = write(tmp_path / "a.csv", 'label,text\r\nx,"one, ""two""\nthree"\r\ny,four\r\n')
    assert read_table(path, columns=("text",)) == {"text": ['one, "two"\nthree', "four"]}


def test_numbers_and_booleans_of_json_lines_become_text(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"t": "café", "n": 1, "x": {}}\n\n{"t": "b", "n": true}\n')
    assert read_table(path, columns=("t", "n")) == {"t": ["café", "b"], "n": ["1", "true"]}


def test_columns_of_objects_in_a_json_list_are_named_with_a_dot(tmp_path):
    path = write(tmp_path / "a.json", '[{"t": "café", "l": {"n": 1.5, "m": {"k": true}}}]')
    assert read_table(path, columns=("t", "l.n", "l.m.k")) == {
        "t": ["café"], "l.n": ["1.5"], "l.m.k": ["true"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.doc", "x", r"a.doc ends in '.doc'; expected one of .tsv, .txt, .csv, .jsonl, .json"),
        ("a.tsv", "", "a.tsv is empty; expected a header line"),
        ("a.tsv", "t\tl\n", "a.tsv has no rows"),
        ("a.tsv", "t\tl\na\tb\nc\n", "a.tsv, line 3 has 1 column; expected 2, t, l"),
        ("a.tsv", "x\tl\na\tb\n", "a.tsv, line 2 has no column 't'; it has 'x', 'l'"),
        ("a.csv", 't,l\n"a,b\n', "a.csv, line 2 is not CSV"),
        (
            "a.csv",
            't,l\na,b\n"c,d\ne,f\n',
            "line 4 is not CSV: .*; the row starts on line 3",
        ),
        ("a.jsonl", '{"t": "a"}\n{"t": \n', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl, line 1 is not a JSON object"),
        (
            "a.jsonl",
            '\n{"t": {"x": 1}}\n',
            "line 2 has an object in the column 't'; expected",
        ),
        (
            "a.csv",
            "t\n" + "word " * 30_000,
            "line 2 is not CSV: .*; a text that is too long for CSV needs a .jsonl file",
        ),
        ("a.jsonl", '{"t": ["x"]}\n', "line 1 has a list in the column 't'; expected a text"),
        ("a.jsonl", '{"t": null}\n', "a.jsonl, line 1 has no column 't'"),
        (
            "a.jsonl",
            '{"t": "\\ud83d\\ude00"}\n{"t": "\\ud83d"}\n',
            "line 2 has half of a surrogate pair in the column 't'; expected valid Unicode",
        ),
    ],
)
def test_errors_name_the_file_and_line(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path / name, text), columns=("t",))


def test_missing_files_and_other_encodings_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.tsv does not exist"):
        read_table(tmp_path / "none.tsv", columns=("t",))
    (tmp_path / "a.tsv").write_bytes(b"t\tl\ncaf\xe9\tb\n")
    with pytest.raises(InputError, match=r"a.tsv, line 2 is not UTF-8"):
        read_table(tmp_path / "a.tsv", columns=("t",))


def test_official_glue_files_are_read(shared_data):
    table = read_table(shared_data / "glue" / "SST-2" / "dev.tsv", columns=("sentence", "label"))
    assert len(table["label"]) == 872 and set(table["label"]) == {"0", "1"}
