import pytest

from bert_keras.data.schema import PretrainingSchema, schema_of
from bert_keras.errors import InputError


def test_feature_lengths_in_the_order_of_writing():
    assert list(PretrainingSchema(64, 10).lengths.items()) == [
        ("input_ids", 64),
        ("input_mask", 64),
        ("masked_lm_ids", 10),
        ("masked_lm_positions", 10),
        ("masked_lm_weights", 10),
        ("next_sentence_labels", 1),
        ("segment_ids", 64),
    ]


def test_parsing_spec_types():
    spec = PretrainingSchema(64, 10).parsing_spec()
    assert {name: feature.dtype.name for name, feature in spec.items()} == {
        **dict.fromkeys(PretrainingSchema().lengths, "int64"),
        "masked_lm_weights": "float32",
    }
    assert spec["segment_ids"].shape == [64]


def test_schema_is_read_off_a_file_of_the_original_kind(write, make_example):
    assert schema_of(write("a.tfrecord", [make_example(7)])) == PretrainingSchema(8, 2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"max_length": 4}, "max_length is 4; expected at least 5"), ({"max_predictions": 0}, "is 0")],
)
def test_impossible_schemas(settings, told):
    with pytest.raises(InputError, match=told):
        PretrainingSchema(**settings)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"input_mask": None}, "lacks input_mask .it has input_ids, masked_lm_ids"),
        ({"masked_lm_weights": [1, 0]}, "masked_lm_weights holds 0 float_list values; expected 2"),
        ({"segment_ids": [0, 0]}, "segment_ids holds 2 int64_list values; expected 8"),
    ],
)
def test_foreign_features(write, make_example, changes, told):
    path = write("foreign.tfrecord", [make_example(7, **changes)])
    with pytest.raises(InputError, match=told):
        schema_of(path)


def test_files_that_are_no_records(write, tmp_path):
    (tmp_path / "text").write_text("just a text that is longer than a record's head")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "empty").write_text("")
    for name, told in [
        ("text", "is not a whole TFRecord file"),
        ("short", "holds no records"),
        ("empty", "holds no records"),
        ("none", "does not exist"),
        ("", "is a folder"),
    ]:
        with pytest.raises(InputError, match=told):
            schema_of(tmp_path / name)
    with pytest.raises(InputError, match=r"records that are not tf\.train\.Example"):
        schema_of(write("foreign", [b"\xff\xff\xff"]))
