"""Record files: their schema, damaged files, and every kind of record as `fit` reads it."""

import gzip
from itertools import chain, islice
from pathlib import Path

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies

from bert_keras.data import record_file
from bert_keras.data.batches import Batches, input_errors
from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import MASKED, NEXT_TOKENS, DynamicMasking, masked_and_labelled
from bert_keras.data.record_file import PretrainingSchema, frame, read_schema, serialize
from bert_keras.data.records import Records, pretraining_dataset
from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import needs_tensorflow, tf

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyz"))
PLAIN = {
    "input_ids": [2, 5, 6, 3, 7, 8, 3, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 1, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 1, 0],
}
MASKS = {"masked_lm_positions": [2, 0], "masked_lm_ids": [9, 0], "masked_lm_weights": [1.0, 0.0]}
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
TWO_ALONE = {"has_labels": False, "max_sequences": 2}
KINDS = {
    "pairs": (PretrainingSchema(8, 2), {**PLAIN, **MASKS, "next_sentence_labels": [1]}),
    "no labels": (PretrainingSchema(8, 2, has_labels=False), {**PLAIN, **MASKS}),
    "plain ids": (PretrainingSchema(8, 0), {**PLAIN, "next_sentence_labels": [1]}),
    "plain ids, no labels": (PretrainingSchema(8, 0, has_labels=False), PLAIN),
    "packed": (PretrainingSchema(8, 2, max_sequences=3), PLAIN | PACKED | MASKS | LABELS),
    "packed, no labels": (PretrainingSchema(8, 2, **TWO_ALONE), PLAIN | PACKED | MASKS),
    "packed plain ids": (PretrainingSchema(8, 0, **TWO_ALONE), PLAIN | PACKED),
}


def record(**values) -> bytes:
    """A record of these features; None drops a feature."""
    (content,) = serialize({n: np.array([v]) for n, v in values.items() if v is not None})
    return content


def pair(number: int, **changes) -> bytes:
    """A record that holds its `number` as its second id."""
    _, features = KINDS["pairs"]
    changes = {"next_sentence_labels": [number % 2], **changes}
    return record(**features | {"input_ids": [2, number, 6, 3, 7, 8, 3, 0]} | changes)


@pytest.fixture
def write(tmp_path):
    """write(name, records) -> path"""

    def written(name, records):
        (tmp_path / name).write_bytes(frame(records))
        return str(tmp_path / name)

    return written


@pytest.fixture
def files(write):
    """Three files of ten records; the second id of record n is n."""
    numbers = {file: range(10 * file, 10 * file + 10) for file in (1, 2, 3)}
    return [write(f"{file}.tfrecord", map(pair, each)) for file, each in numbers.items()]


@pytest.fixture
def plain(write):
    """Two files of 10 records of plain ids; the second id is that of the record."""
    ids = [[2, 10 + number, *range(6, 10), 3, 0] for number in range(20)]
    records = [record(**PLAIN | {"input_ids": each}) for each in ids]
    return [write("0.tfrecord", records[:10]), write("1.tfrecord", records[10:])]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_read_from_the_first_record(write, kind):
    schema, features = KINDS[kind]
    assert schema.lengths == {name: len(features[name]) for name in sorted(features)}
    assert [*schema.lengths] == sorted(features)  # the order of writing
    assert read_schema(write("a.tfrecord", [record(**features)])) == schema
    for name in features.keys() - {"next_sentence_labels", "input_ids", "masked_lm_positions"}:
        with pytest.raises(InputError):
            read_schema(write("half.tfrecord", [record(**features | {name: None})]))


def test_records_without_labels_do_not_depend_on_the_number_of_sequences():
    schemas = {PretrainingSchema(128, 0, has_labels=False, max_sequences=n) for n in (2, 8, 42)}
    assert [schema.max_sequences for schema in schemas] == [42]


def test_other_files_are_refused(write, tmp_path):
    contents = {"text": b"just a text that is longer than a record's head", "short": b"abc"}
    for name, content in (contents | {"empty": b"", "gzip": gzip.compress(b"a record")}).items():
        (tmp_path / name).write_bytes(content)
    write("foreign", [b"\xff\xff\xff"])
    for name in ("text", "short", "empty", "gzip", "foreign"):
        with pytest.raises(InputError):
            read_schema(tmp_path / name)
    for name, value in {"masked_lm_weights": [1, 0], "segment_ids": [0], "input_ids": [1]}.items():
        with pytest.raises(InputError):
            read_schema(write("foreign.tfrecord", [pair(7, **{name: value})]))


def batches_of(files, **options):
    return Records(record_file.record_files(files)).batches(**{"batch_size": 5, **options})


def record_numbers(batches):
    return [inputs["input_ids"][:, 1].tolist() for inputs, _, _ in batches]


def flat(batches):
    return list(chain.from_iterable(batches))


def test_without_a_seed_records_keep_the_order_of_the_files(files):
    batches = batches_of(reversed(files), batch_size=7, drop_remainder=False)
    numbers = record_numbers(batches)
    assert flat(numbers) == list(range(10, 40))
    assert [len(batch) for batch in numbers] == [7, 7, 7, 7, 2]
    assert len(record_numbers(batches_of(files, batch_size=7))) == 4


@pytest.mark.parametrize("batch_size", [6, 7, 40])
@pytest.mark.parametrize("buffer", [4, 50_000])
def test_epochs_differ_and_a_run_resumes_by_skipping(files, monkeypatch, batch_size, buffer):
    """An epoch has each record once. A batch can have records of two epochs or more."""
    monkeypatch.setattr("bert_keras.data.records.SHUFFLE_BUFFER", buffer)
    monkeypatch.setattr("bert_keras.data.records.FILES_AT_ONCE", 2)
    monkeypatch.setattr("bert_keras.data.records.BLOCK", 3)

    def first(number, **options):
        batches = batches_of(files, batch_size=batch_size, repeat=True, **options)
        return [batches[index] for index in range(number)]

    numbers = record_numbers(first(15, seed=1))
    epochs = np.reshape(flat(numbers)[:90], (3, 30)).tolist()
    assert [sorted(epoch) for epoch in epochs] == 3 * [list(range(10, 40))]
    assert epochs[0] != epochs[1] != epochs[2] and numbers != record_numbers(first(15, seed=2))
    endless = batches_of(files, batch_size=batch_size, repeat=True, seed=1)
    for skipped in range(12):
        rest = islice(endless.skip(skipped), 15 - skipped)
        assert record_numbers(rest) == numbers[skipped:]
    in_order = flat(record_numbers(first(15)))
    assert in_order[:60] == 2 * list(range(10, 40))


def test_record_files_of_a_folder_a_pattern_or_a_list(tmp_path, files):
    assert record_file.record_files(tmp_path) == files
    assert record_file.record_files(f"{tmp_path}/[12].tfrecord") == files[:2]
    assert record_file.record_files([files[2], files[0], files[0]]) == [files[0], files[2]]
    for name in ("train-0.tfrecord", "held-out-0.tfrecord", "notes.txt"):
        (tmp_path / name).touch()
    assert record_file.record_files(str(tmp_path)) == [f"{tmp_path}/train-0.tfrecord"]
    (tmp_path / "none").mkdir()
    for records in (tmp_path / "none", f"{tmp_path}/*.record"):
        with pytest.raises(InputError):
            record_file.record_files(records)


def test_records_equal_those_of_tensorflow(write):
    """Also if features come in another order, unpacked, twice or with others."""
    for schema, features in KINDS.values():
        spec = {
            name: tf.io.FixedLenFeature([n], tf.float32 if "weights" in name else tf.int64)
            for name, n in schema.lengths.items()
        }
        random = np.random.default_rng(0)
        ids = (random.integers(0, 1 << random.integers(1, 31, 8), 8).tolist() for _ in range(50))
        records = [record(**features | {"input_ids": row}) for row in ids]
        features = features | {"input_ids": [0, 127, 128, 2**31 - 1] * 2}
        records += [*map(backwards, records), record(**features, more=[1]), unpacked(features)]
        file = write("a.tfrecord", records)
        assert [*record_file.read_records(file)] == records
        parsed = record_file.RecordParser(schema)([(file, each) for each in records])
        expected = tf.io.parse_example(records, spec)
        assert parsed.keys() == expected.keys()
        for name, values in expected.items():
            assert parsed[name].dtype == ("float32" if "weights" in name else "int32")
            np.testing.assert_array_equal(parsed[name], values, name)


def backwards(content: bytes) -> bytes:
    features = reversed(record_file.parse_features(content).items())
    body = b"".join(record_file.feature_head(n, kind, len(v)) + v for n, (kind, v) in features)
    return b"\x0a" + record_file.encode_varint(len(body)) + body


def unpacked(features) -> bytes:
    """An example in which each value is a field of its own, after a value that does not count."""

    def field(number, value):
        if isinstance(value, bytes):
            return bytes([number << 3 | 2]) + record_file.encode_varint(len(value)) + value
        if isinstance(value, float):
            return bytes([number << 3 | 5]) + np.float32(value).tobytes()
        return bytes([number << 3]) + record_file.encode_varint(value)

    entries = []
    for name, values in features.items():
        value_list = b"".join(field(1, value) for value in values)
        feature = field(3 if isinstance(values[0], int) else 2, value_list)
        entries += [field(1, field(1, name.encode()) + field(2, part)) for part in (b"", feature)]
    return field(9, 1) + field(1, b"".join(entries[::2])) + field(1, b"".join(entries[1::2]))


def test_each_cut_of_the_last_record_is_found(write):
    content = Path(write("a.tfrecord", [pair(1)])).read_bytes()
    for size in (*range(1, 20), *range(20, len(content), 50), len(content) - 1):
        path = write("a.tfrecord", [])
        Path(path).write_bytes(content + content[:size])
        with pytest.raises(InputError):
            list(record_file.read_records(path))
    for length in (0, 2**40, 2**63, 2**64 - 1):
        Path(path).write_bytes(content + record_file.framed_length(length) + bytes(40))
        with pytest.raises(InputError):
            list(record_file.read_records(path))


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(strategies.data())
def test_a_damaged_record_is_refused_or_has_the_features(data):
    schema, _ = KINDS["pairs"]
    content = bytearray(pair(7))
    for _ in range(data.draw(strategies.integers(1, 3))):
        place = data.draw(strategies.integers(0, len(content) - 1))
        content[place] = data.draw(strategies.integers(0, 255))
    content = bytes(content[: data.draw(strategies.integers(len(content) - 3, len(content)))])
    try:
        features = record_file.RecordParser(schema, limits=schema.limits(31))([("here", content)])
    except InputError as error:
        assert str(error).startswith("here has a wrong record (")
    else:
        assert {name: each.shape[1] for name, each in features.items()} == schema.lengths
        assert features["input_ids"].min() >= 0 and features["input_ids"].max() < 31


def test_a_corrupt_file_is_named_also_if_it_is_read_later(files, tmp_path):
    content = bytearray((tmp_path / "1.tfrecord").read_bytes())
    content[-50] ^= 1
    (tmp_path / "1.tfrecord").write_bytes(content)
    with pytest.raises(InputError):
        pretraining_dataset(files, batch_size=3)
    endless = pretraining_dataset(files, batch_size=3, repeat=True)
    with pytest.raises(InputError, match=r"1\.tfrecord"), input_errors():
        next(iter(endless.skip(9)))
    (tmp_path / "1.tfrecord").unlink()
    with pytest.raises(InputError, match=r"1\.tfrecord"), input_errors():
        next(iter(endless))


@pytest.mark.parametrize(
    "changes",
    [
        *({"input_mask": None}, {"segment_ids": [0]}, {"masked_lm_positions": [8, 0]}),
        {"input_ids": [2, 31, 6, 3, 7, 8, 3, 0]},
        {"input_ids": [2, 2**64 - 1, *range(6)]},
        *({"masked_lm_ids": [2**32 + 9, 0]}, {"next_sentence_labels": [2]}),
        *({"masked_lm_weights": each} for each in ([1, 0], [1.0, -1.0], [1.0, float("nan")])),
    ],
)
def test_a_later_record_with_other_features_is_refused(write, changes):
    good, (_, features) = write("good.tfrecord", 2 * [pair(9)]), KINDS["pairs"]
    features = {n: v for n, v in (features | changes).items() if v is not None}
    bad = write("bad.tfrecord", [pair(9), unpacked(features)])
    for seed in (None, 1):
        batches = Records([good, bad], vocab_size=31).batches(batch_size=4, seed=seed)
        with pytest.raises(InputError, match=r"bad\.tfrecord"):
            batches[0]


@needs_tensorflow
def test_a_data_set_for_fit_has_a_cardinality_and_no_autotuning(files):
    for drop, count in ((True, 30 // 4), (False, -(-30 // 4))):
        dataset = pretraining_dataset(files, batch_size=4, drop_remainder=drop)
        assert dataset.cardinality() == len(list(dataset)) == count
        assert dataset.map(lambda *batch: batch).options().autotune.enabled is False
        for part in dataset.element_spec:
            assert {spec.shape[0] for spec in part.values()} == {4 if drop else None}
    endless = pretraining_dataset(files, batch_size=4, seed=1, repeat=True)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    numbers = record_numbers(endless.skip(2).take(9).as_numpy_iterator())
    expected = batches_of(files, batch_size=4, seed=1, repeat=True)
    assert numbers == [expected[index][0]["input_ids"][:, 1].tolist() for index in range(2, 11)]


def masking(seed=1, **policy):
    policy = MaskingPolicy(**{"mask_rate": 0.3, "max_predictions": 3, **policy})
    return DynamicMasking(Masker(policy, VOCABULARY), seed)


def first(write, features, **options):
    """Returns dtypes and values of the first row of a data set of one record."""
    batches = batches_of(write("a.tfrecord", [record(**features)]), batch_size=1, **options)
    assert all(values.flags.c_contiguous for part in batches[0] for values in part.values())
    return [{n: (v.dtype.name, v[0].tolist()) for n, v in part.items()} for part in batches[0]]


def integers(features):
    return {name: ("int32", values) for name, values in features.items()}


NEXT = {"pairs": (1, 1), "packed": ([0, 1, 0], [1, 1, 0])}  # labels and weights


@pytest.mark.parametrize("kind", ["pairs", "no labels", "packed", "packed, no labels"])
def test_masked_records_exactly(write, kind):
    _, features = KINDS[kind]
    inputs, targets, weights = first(write, features)
    names = (*PLAIN, *PACKED, "masked_lm_positions", "next_sentence_positions")
    assert inputs == integers({name: features[name] for name in names if name in features})
    expected, expected_weights = integers({"masked_lm": [9, 0]}), {"masked_lm": ("float32", [1, 0])}
    if kind in NEXT:
        expected["next_sentence"] = ("int32", NEXT[kind][0])
        expected_weights["next_sentence"] = ("float32", NEXT[kind][1])
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


def values_of(batches):
    return [[{n: v.tolist() for n, v in part.items()} for part in batch] for batch in batches]


def test_masks_are_those_of_the_policy(plain):
    dataset = batches_of(plain, masking=masking(mask_share=1.0, random_share=0.0))
    for number, (inputs, targets, weights) in enumerate(dataset):
        target_ids, positions = targets["masked_lm"], inputs["masked_lm_positions"]
        assert weights["masked_lm"].tolist() == [[1, 1, 0]] * 5  # 0.3 of 7 tokens
        original = inputs["input_ids"].copy()
        assert (np.take_along_axis(original, positions, 1)[:, :2] == VOCABULARY.mask_id).all()
        np.put_along_axis(original, positions[:, :2], target_ids[:, :2], 1)
        assert original[:, 1].tolist() == list(range(10 + 5 * number, 15 + 5 * number))
        assert (original[:, 2:] == [6, 7, 8, 9, 3, 0]).all()


def test_each_epoch_has_its_own_masks_and_a_run_resumes_by_skipping(plain):
    def endless(seed):
        return batches_of(plain, batch_size=4, seed=1, repeat=True, masking=masking(seed=seed))

    expected = values_of(islice(endless(1), 10))
    assert values_of(islice(endless(1).skip(3), 7)) == expected[3:]
    assert values_of(islice(endless(2), 10)) != expected
    masks = [sorted(inputs["masked_lm_positions"]) for inputs, _, _ in expected]
    assert masks[:5] != masks[5:]
    once = batches_of(plain, batch_size=8, drop_remainder=False, masking=masking())
    assert once.num_batches == 3 and values_of(once) == values_of(once)


def test_a_user_may_parse_and_map_with_tensorflow(write):
    for kind in ("pairs", "packed", "no labels"):
        _, features = KINDS[kind]
        dataset = tf.data.Dataset.from_tensors({n: [v] for n, v in features.items()})
        expected = batches_of(write("a.tfrecord", [record(**features)]), batch_size=1)
        mapped = dataset.map(masked_and_labelled).as_numpy_iterator()
        assert values_of(mapped) == values_of(expected)


def test_records_that_do_not_fit_each_other_or_the_objective_are_refused(plain, write):
    masked = write("masked.tfrecord", [record(**PLAIN, **MASKS)])
    labelled = write("labelled.tfrecord", [pair(7)])
    assert batches_of(masked) and batches_of(labelled)
    for files, options in (
        (plain, {}),
        (masked, {"masking": masking()}),
        (masked, {"objective": NEXT_TOKENS}),
        ([labelled, masked], {}),
    ):
        with pytest.raises(InputError):
            batches_of(files, **options)


@needs_tensorflow
def test_tensorflow_cannot_write_to_the_memory_of_a_batch():
    memory = np.zeros(4_096, "int32")
    array = memory[-memory.ctypes.data % 64 // 4 :][:1_024]  # TensorFlow shares aligned memory
    spec = keras.KerasTensor((1_024,), "int32")
    (tensor,) = Batches(lambda first: iter([array]), spec=spec, num_batches=1).for_fit()
    assert not np.shares_memory(memoryview(tensor), array)
