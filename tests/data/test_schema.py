import gzip

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


KINDS = {
    "pairs": PretrainingSchema(8, 2),
    "no labels": PretrainingSchema(8, 2, has_labels=False),
    "plain ids": PretrainingSchema(8, 0),
    "plain ids, no labels": PretrainingSchema(8, 0, has_labels=False),
    "packed": PretrainingSchema(8, 2, max_sequences=3),
    "packed, no labels": PretrainingSchema(8, 2, has_labels=False, max_sequences=2),
    "packed plain ids": PretrainingSchema(8, 0, has_labels=False, max_sequences=2),
}


def test_features_of_each_kind():
    lengths = {kind: schema.lengths for kind, schema in KINDS.items()}
    assert lengths["plain ids, no labels"] == {"input_ids": 8, "input_mask": 8, "segment_ids": 8}
    assert lengths["plain ids"] == {"next_sentence_labels": 1} | lengths["plain ids, no labels"]
    masks = {"masked_lm_positions": 2, "masked_lm_ids": 2, "masked_lm_weights": 2}
    assert lengths["no labels"] == masks | lengths["plain ids, no labels"]
    packing = {"position_ids": 8, "sequence_ids": 8}
    assert lengths["packed plain ids"] == packing | lengths["plain ids, no labels"]
    assert lengths["packed, no labels"] == packing | lengths["no labels"]
    assert lengths["packed"] == lengths["packed, no labels"] | {
        "next_sentence_labels": 3,
        "next_sentence_positions": 3,
        "next_sentence_weights": 3,
    }
    assert all(list(each) == sorted(each) for each in lengths.values())


def zeros(schema):
    """A record of this kind."""
    return {
        name: [0.0 if "weights" in name else 0] * length for name, length in schema.lengths.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_read_from_the_first_record(write, record, kind):
    assert schema_of(write("a.tfrecord", [record(**zeros(KINDS[kind]))])) == KINDS[kind]


def test_without_labels_the_maximum_number_of_sequences_is_normalized():
    schemas = {PretrainingSchema(128, 0, has_labels=False, max_sequences=n) for n in (2, 8, 42)}
    assert [schema.max_sequences for schema in schemas] == [42]


@pytest.mark.parametrize(
    ("kind", "dropped", "message"),
    [
        ("packed", "position_ids", "lack position_ids"),
        ("packed", "next_sentence_labels", "lack next_sentence_labels"),
        ("packed", "next_sentence_weights", "lack next_sentence_weights"),
        ("packed, no labels", "sequence_ids", "lack sequence_ids"),
        ("no labels", "masked_lm_positions", "lack masked_lm_positions"),
        ("plain ids", "input_mask", "lack input_mask"),
    ],
)
def test_incomplete_features_are_refused(write, record, kind, dropped, message):
    features = zeros(KINDS[kind])
    del features[dropped]
    with pytest.raises(InputError, match=message):
        schema_of(write("half.tfrecord", [record(**features)]))


def test_packed_records_have_a_label_for_each_sequence(write, record):
    features = zeros(KINDS["packed"]) | {"next_sentence_labels": [1]}
    with pytest.raises(InputError, match="next_sentence_labels has 1 int64_list value; exp"):
        schema_of(write("a.tfrecord", [record(**features)]))


def test_the_schema_of_a_file_of_the_original(write, make_example):
    assert schema_of(write("a.tfrecord", [make_example(7)])) == PretrainingSchema(8, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 4}, "max_length is 4; expected at least 5"),
        ({"max_predictions": -1}, "max_predictions is -1; expected at least 0"),
        ({"max_sequences": 0}, "max_sequences is 0; expected at least 1"),
    ],
)
def test_impossible_schemas_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        PretrainingSchema(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_mask": None}, "lack input_mask .they have input_ids, masked_lm_ids"),
        ({"masked_lm_weights": [1, 0]}, "masked_lm_weights has 0 float_list values; expected 2"),
        ({"segment_ids": [0, 0]}, "segment_ids has 2 int64_list values; expected 8"),
        ({"input_ids": [1]}, r"foreign\.tfrecord contains no pretraining records: max_length is 1"),
    ],
)
def test_other_features_are_refused(write, make_example, changes, message):
    path = write("foreign.tfrecord", [make_example(7, **changes)])
    with pytest.raises(InputError, match=message):
        schema_of(path)


def test_files_without_records_are_refused(write, tmp_path):
    (tmp_path / "text").write_text("just a text that is longer than a record's head")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "empty").write_text("")
    (tmp_path / "gzip").write_bytes(gzip.compress(b"a record"))
    for name, message in [
        ("text", "is not a complete TFRecord file"),
        ("short", "contains no records"),
        ("empty", "contains no records"),
        ("gzip", "is compressed; decompress it with gunzip"),
        ("none", "does not exist"),
        ("", "is a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            schema_of(tmp_path / name)
    with pytest.raises(InputError, match=r"records that are not tf\.train\.Example"):
        schema_of(write("foreign", [b"\xff\xff\xff"]))
