"""Record files: their schema, damaged files, and every kind of record as `fit` reads it."""

import gzip
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import MASKED, NEXT_TOKENS, DynamicMasking
from bert_keras.data.record_file import num_records, readable_records
from bert_keras.data.records import pretraining_dataset, record_files
from bert_keras.data.schema import PretrainingSchema, schema_of
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz"))
PLAIN = {
    "input_ids": [2, 5, 6, 3, 7, 8, 3, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 1, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 1, 0],
}
MASKS = {
    "masked_lm_positions": [2, 0],
    "masked_lm_ids": [9, 0],
    "masked_lm_weights": [1.0, 0.0],
}
PACKED = {
    "input_ids": [2, 5, 6, 3, 2, 8, 3, 0],
    "position_ids": [0, 1, 2, 3, 0, 1, 2, 0],
    "sequence_ids": [1, 1, 1, 1, 2, 2, 2, 0],
}
LABELS = {
    "next_sentence_positions": [0, 4, 0],
    "next_sentence_labels": [0, 1, 0],
    "next_sentence_weights": [1.0, 1.0, 0.0],
}
KINDS = {
    "pairs": (PretrainingSchema(8, 2), {**PLAIN, **MASKS, "next_sentence_labels": [1]}),
    "no labels": (PretrainingSchema(8, 2, has_labels=False), {**PLAIN, **MASKS}),
    "plain ids": (PretrainingSchema(8, 0), {**PLAIN, "next_sentence_labels": [1]}),
    "plain ids, no labels": (PretrainingSchema(8, 0, has_labels=False), PLAIN),
    "packed": (PretrainingSchema(8, 2, max_sequences=3), PLAIN | PACKED | MASKS | LABELS),
    "packed, no labels": (
        PretrainingSchema(8, 2, has_labels=False, max_sequences=2),
        PLAIN | PACKED | MASKS,
    ),
    "packed plain ids": (
        PretrainingSchema(8, 0, has_labels=False, max_sequences=2),
        PLAIN | PACKED,
    ),
}


def record(**values) -> bytes:
    """A record of these features; floats make a list of floats, None drops a feature."""
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=value))
        if any(isinstance(each, float) for each in value)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for name, value in values.items()
        if value is not None
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def pair(number: int, **changes) -> bytes:
    """A record that holds its `number` as its second id."""
    _, features = KINDS["pairs"]
    changes = {"next_sentence_labels": [number % 2], **changes}
    return record(**features | {"input_ids": [2, number, 6, 3, 7, 8, 3, 0]} | changes)


@pytest.fixture
def write(tmp_path):
    """write(name, records) -> path, with TensorFlow's own writer."""

    def written(name, records):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for record in records:
                writer.write(record)
        return str(tmp_path / name)

    return written


@pytest.fixture
def files(write):
    """Three files of ten records; the second id of record n is n."""
    return [
        write(f"{file}.tfrecord", [pair(file * 10 + row) for row in range(10)])
        for file in range(1, 4)
    ]


@pytest.fixture
def plain(write):
    """Two files of 10 records of plain ids; the second id is that of the record."""
    return [
        write(
            f"{file}.tfrecord",
            [record(**PLAIN | {"input_ids": [2, 10 + row, *range(6, 10), 3, 0]}) for row in rows],
        )
        for file, rows in enumerate((range(10), range(10, 20)))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_read_from_the_first_record(write, kind):
    schema, features = KINDS[kind]
    assert schema.lengths == {name: len(features[name]) for name in sorted(features)}
    assert [*schema.lengths] == sorted(features)  # the order of writing
    assert schema_of(write("a.tfrecord", [record(**features)])) == schema
    spec = schema.parsing_spec()
    assert {name: feature.dtype.name for name, feature in spec.items()} == {
        name: "float32" if "weights" in name else "int64" for name in features
    }
    for name in features.keys() - {"next_sentence_labels", "input_ids", "masked_lm_positions"}:
        with pytest.raises(InputError, match=rf"{name} \(0, not \d"):
            schema_of(write("half.tfrecord", [record(**features | {name: None})]))


def test_impossible_schemas_are_refused():
    schemas = {PretrainingSchema(128, 0, has_labels=False, max_sequences=n) for n in (2, 8, 42)}
    assert [schema.max_sequences for schema in schemas] == [42]
    for field, value in {"max_length": 4, "max_predictions": -1, "max_sequences": 0}.items():
        with pytest.raises(InputError, match=f"{field} is {value}"):
            PretrainingSchema(**{field: value})


def test_other_files_are_refused(write, tmp_path):
    (tmp_path / "text").write_text("just a text that is longer than a record's head")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "empty").write_text("")
    (tmp_path / "gzip").write_bytes(gzip.compress(b"a record"))
    write("foreign", [b"\xff\xff\xff"])
    for name in ("text", "short", "empty", "gzip", "foreign"):
        with pytest.raises(InputError, match=f"{name} is empty, compressed, damaged or no"):
            schema_of(tmp_path / name)
    with pytest.raises(InputError, match="none does not exist"):
        schema_of(tmp_path / "none")
    for changes in ({"masked_lm_weights": [1, 0]}, {"segment_ids": [0]}, {"input_ids": [1]}):
        with pytest.raises(
            InputError, match=f"has no pretraining records, .*{next(iter(changes))}"
        ):
            schema_of(write("foreign.tfrecord", [pair(7, **changes)]))


def record_numbers(dataset):
    return [inputs["input_ids"][:, 1].tolist() for inputs, _, _ in dataset.as_numpy_iterator()]


def flat(batches):
    return list(chain.from_iterable(batches))


def test_without_a_seed_records_keep_the_order_of_the_files(files):
    batches = record_numbers(
        pretraining_dataset(reversed(files), batch_size=7, drop_remainder=False)
    )
    assert flat(batches) == list(range(10, 40))
    assert [len(batch) for batch in batches] == [7, 7, 7, 7, 2]
    assert len(record_numbers(pretraining_dataset(files, batch_size=7))) == 4


def test_a_limited_data_set_does_not_count_the_records(files, monkeypatch):
    monkeypatch.setattr("bert_keras.data.records.num_records", None)
    for most, last in ((12, 22), (30, 40), (999, 40)):
        batches = pretraining_dataset(files, batch_size=5, drop_remainder=False, most=most)
        assert flat(record_numbers(batches)) == list(range(10, last))


def test_same_seed_same_batches(files):
    first = record_numbers(pretraining_dataset(files, batch_size=5, seed=1))
    assert first == record_numbers(pretraining_dataset(files, batch_size=5, seed=1))
    assert first != record_numbers(pretraining_dataset(files, batch_size=5, seed=2))
    assert sorted(flat(first)) == list(range(10, 40)) != flat(first)


def test_epochs_differ_and_a_run_resumes_by_skipping(files):
    batches = record_numbers(pretraining_dataset(files, batch_size=6, seed=1, repeat=True).take(10))
    assert sorted(flat(batches[:5])) == sorted(flat(batches[5:])) == list(range(10, 40))
    assert batches[:5] != batches[5:]
    rest = pretraining_dataset(files, batch_size=6, seed=1, repeat=True).skip(3).take(7)
    assert record_numbers(rest) == batches[3:]


def test_record_files_of_a_folder_a_pattern_or_a_list(tmp_path, files):
    assert record_files(tmp_path) == files
    assert record_files(f"{tmp_path}/[12].tfrecord") == files[:2]
    assert record_files([files[2], files[0], files[0]]) == [files[0], files[2]]
    for name in ("train-0.tfrecord", "held-out-0.tfrecord", "notes.txt"):
        (tmp_path / name).touch()
    assert record_files(str(tmp_path)) == [f"{tmp_path}/train-0.tfrecord"]
    (tmp_path / "none").mkdir()
    for records in (tmp_path / "none", f"{tmp_path}/*.record"):
        with pytest.raises(InputError, match=r"contains or matches no \*.tfrecord files"):
            record_files(records)


def test_each_cut_of_the_last_record_is_found(write):
    """TensorFlow reports the end of the file for the first 12 bytes, an error for the others."""
    content = Path(write("a.tfrecord", [pair(1)])).read_bytes()
    for size in (*range(1, 20), *range(20, len(content), 50), len(content) - 1):
        path = write("a.tfrecord", [])
        Path(path).write_bytes(content + content[:size])
        with pytest.raises(InputError, match="truncated or corrupt"):
            num_records(path)


def test_a_corrupt_file_is_named_also_if_it_is_read_later(files, tmp_path):
    content = bytearray((tmp_path / "1.tfrecord").read_bytes())
    content[-50] ^= 1
    (tmp_path / "1.tfrecord").write_bytes(content)
    with pytest.raises(InputError, match=r"1\.tfrecord is truncated or corrupt"):
        pretraining_dataset(files, batch_size=3)
    endless = pretraining_dataset(files, batch_size=3, repeat=True)
    with pytest.raises(InputError, match="is truncated or corrupt"), readable_records():
        record_numbers(endless)
    (tmp_path / "1.tfrecord").unlink()
    with pytest.raises(InputError, match=r"missing \(.*1\.tfrecord"), readable_records():
        record_numbers(endless)


@pytest.mark.parametrize(
    "other", [pair(2, input_mask=None), pair(2, segment_ids=[0]), b"\xff\xff"], ids=range(3)
)
def test_a_record_with_other_features_is_refused(write, other):
    batches = pretraining_dataset(write("a.tfrecord", [pair(1), other]), batch_size=2)
    with pytest.raises(InputError, match="here contains a record"), readable_records("here"):
        record_numbers(batches)


def test_a_finite_data_set_has_a_cardinality_and_no_autotuning(files):
    for drop, count in ((True, 30 // 4), (False, -(-30 // 4))):
        dataset = pretraining_dataset(files, batch_size=4, drop_remainder=drop)
        assert dataset.cardinality() == len(list(dataset)) == count
        assert dataset.map(lambda *batch: batch).options().autotune.enabled is False


def masking(seed=1, **policy):
    policy = MaskingPolicy(**{"mask_rate": 0.3, "max_predictions": 3, **policy})
    return DynamicMasking(Masker(policy, VOCABULARY), seed)


def first(write, features, **options):
    """Returns dtypes and values of the first row of a data set of one record."""
    dataset = pretraining_dataset(
        write("a.tfrecord", [record(**features)]), batch_size=1, **options
    )
    return [
        {name: (values.dtype.name, values[0].tolist()) for name, values in part.items()}
        for part in next(dataset.as_numpy_iterator())
    ]


def integers(features):
    return {name: ("int32", values) for name, values in features.items()}


@pytest.mark.parametrize("kind", ["pairs", "no labels", "packed", "packed, no labels"])
def test_masked_records_exactly(write, kind):
    _, features = KINDS[kind]
    inputs, targets, weights = first(write, features)
    names = (*PLAIN, *PACKED, "masked_lm_positions", "next_sentence_positions")
    assert inputs == integers({name: features[name] for name in names if name in features})
    expected, expected_weights = integers({"masked_lm": [9, 0]}), {"masked_lm": ("float32", [1, 0])}
    if kind == "pairs":
        expected["next_sentence"] = ("int32", 1)
        expected_weights["next_sentence"] = ("float32", 1)
    if kind == "packed":
        expected["next_sentence"] = ("int32", [0, 1, 0])
        expected_weights["next_sentence"] = ("float32", [1, 1, 0])
    assert (targets, weights) == (expected, expected_weights)
    inputs, targets, weights = first(write, features, objective=MASKED)
    assert "next_sentence_positions" not in inputs
    assert [*targets] == [*weights] == ["masked_lm"]


def test_left_to_right_has_no_target_beyond_a_sequence(write):
    inputs, targets, weights = first(write, PLAIN, objective=NEXT_TOKENS)
    assert inputs == integers(PLAIN | {"masked_lm_positions": [*range(7)]})
    assert targets == integers({"masked_lm": [5, 6, 3, 7, 8, 3, 0]})
    assert weights == {"masked_lm": ("float32", [1, 1, 1, 1, 1, 1, 0])}
    _, _, weights = first(write, PLAIN | PACKED, objective=NEXT_TOKENS)
    assert weights == {"masked_lm": ("float32", [1, 1, 1, 0, 1, 1, 0])}


def batches(dataset):
    return [
        {name: values.tolist() for part in batch for name, values in part.items()}
        for batch in dataset.as_numpy_iterator()
    ]


def test_masks_are_those_of_the_policy(plain):
    dataset = pretraining_dataset(
        plain, batch_size=5, masking=masking(mask_share=1.0, random_share=0.0)
    )
    static = {name: spec.shape.as_list() for name, spec in dataset.element_spec[0].items()}
    assert static["masked_lm_positions"] == [5, 3]
    for number, (inputs, targets, weights) in enumerate(dataset.as_numpy_iterator()):
        target_ids, positions = targets["masked_lm"], inputs["masked_lm_positions"]
        assert weights["masked_lm"].tolist() == [[1, 1, 0]] * 5  # 0.3 of 7 tokens
        original = inputs["input_ids"].copy()
        assert (np.take_along_axis(original, positions, 1)[:, :2] == VOCABULARY.mask_id).all()
        np.put_along_axis(original, positions[:, :2], target_ids[:, :2], 1)
        assert original[:, 1].tolist() == list(range(10 + 5 * number, 15 + 5 * number))
        assert (original[:, 2:] == [6, 7, 8, 9, 3, 0]).all()


def test_each_epoch_has_its_own_masks_and_a_run_resumes_by_skipping(plain):
    def endless(seed):
        return pretraining_dataset(
            plain, batch_size=4, seed=1, repeat=True, masking=masking(seed=seed)
        )

    expected = batches(endless(1).take(10))
    assert batches(endless(1).skip(3).take(7)) == expected[3:]
    assert batches(endless(2).take(10)) != expected
    masks = [sorted(batch["masked_lm_positions"]) for batch in expected]
    assert masks[:5] != masks[5:]
    once = pretraining_dataset(plain, batch_size=8, drop_remainder=False, masking=masking())
    assert once.cardinality() == 3 and batches(once) == batches(once)


def test_records_that_do_not_fit_each_other_or_the_objective_are_refused(plain, write):
    masked = write("masked.tfrecord", [record(**PLAIN, **MASKS)])
    for files, options, message in (
        (plain, {}, r"0\.tfrecord contains records of plain ids; pass"),
        (masked, {"masking": masking()}, "needs no masks; leave out `masking`"),
        (masked, {"objective": NEXT_TOKENS}, "this objective needs plain ids"),
        ([*plain, masked], {}, r"masked\.tfrecord has records of 8 positions"),
    ):
        with pytest.raises(InputError, match=message):
            pretraining_dataset(files, batch_size=1, **options)
