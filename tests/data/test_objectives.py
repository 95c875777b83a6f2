"""Every kind of record as `fit` reads it."""

import numpy as np
import pytest

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import MASKED, NEXT_TOKENS, DynamicMasking
from bert_keras.data.records import pretraining_dataset
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


@pytest.fixture
def plain(write, record):
    """Two files of 10 records of plain ids; the second id is that of the record."""
    return [
        write(
            f"{file}.tfrecord",
            [record(**PLAIN | {"input_ids": [2, 10 + row, *range(6, 10), 3, 0]}) for row in rows],
        )
        for file, rows in enumerate((range(10), range(10, 20)))
    ]


def masking(seed=1, **policy):
    policy = MaskingPolicy(**{"mask_rate": 0.3, "max_predictions": 3, **policy})
    return DynamicMasking(Masker(policy, VOCABULARY), seed)


def first(dataset):
    return [
        {name: (values.dtype.name, values[0].tolist()) for name, values in part.items()}
        for part in next(dataset.as_numpy_iterator())
    ]


def test_records_without_labels(write, record):
    inputs, targets, weights = first(
        pretraining_dataset(write("a.tfrecord", [record(**PLAIN, **MASKS)]), batch_size=1)
    )
    assert sorted(inputs) == ["input_ids", "input_mask", "masked_lm_positions", "segment_ids"]
    assert targets == {"masked_lm": ("int32", [9, 0])}
    assert weights == {"masked_lm": ("float32", [1, 0])}


def test_packed_records_exactly(write, record):
    path = write("a.tfrecord", [record(**PLAIN | PACKED, **MASKS, **LABELS)])
    inputs, targets, weights = first(pretraining_dataset(path, batch_size=1))
    expected = {**PLAIN, **PACKED}
    expected |= {name: MASKS[name] for name in ("masked_lm_positions",)}
    expected |= {name: LABELS[name] for name in ("next_sentence_positions",)}
    assert inputs == {name: ("int32", values) for name, values in expected.items()}
    assert targets["next_sentence"] == ("int32", [0, 1, 0])
    assert weights["next_sentence"] == ("float32", [1, 1, 0])


def test_packed_records_without_labels(write, record):
    path = write("a.tfrecord", [record(**PLAIN | PACKED, **MASKS)])
    inputs, targets, _ = first(pretraining_dataset(path, batch_size=1))
    assert inputs["sequence_ids"] == ("int32", PACKED["sequence_ids"])
    assert list(targets) == ["masked_lm"]


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


def test_records_that_do_not_repeat_have_the_same_masks_in_each_pass(plain):
    dataset = pretraining_dataset(plain, batch_size=8, drop_remainder=False, masking=masking())
    assert dataset.cardinality() == 3
    assert batches(dataset) == batches(dataset)


def test_records_that_do_not_fit_the_objective_are_refused(plain, write, record):
    with pytest.raises(InputError, match=r"0\.tfrecord contains records of plain ids; pass"):
        pretraining_dataset(plain, batch_size=2)
    path = write("masked.tfrecord", [record(**PLAIN, **MASKS)])
    with pytest.raises(InputError, match="contains masked records; leave out `masking`"):
        pretraining_dataset(path, batch_size=1, masking=masking())
    with pytest.raises(InputError, match="contains masked records; this objective needs plain ids"):
        pretraining_dataset(path, batch_size=1, objective=NEXT_TOKENS)
    with pytest.raises(InputError, match=r"masked\.tfrecord contains records of 8 positions"):
        pretraining_dataset([*plain, path], batch_size=2)


def test_left_to_right_exactly(write, record):
    inputs, targets, weights = first(
        pretraining_dataset(
            write("a.tfrecord", [record(**PLAIN)]), batch_size=1, objective=NEXT_TOKENS
        )
    )
    expected = PLAIN | {"masked_lm_positions": [*range(7)]}
    assert inputs == {name: ("int32", values) for name, values in expected.items()}
    assert targets == {"masked_lm": ("int32", [5, 6, 3, 7, 8, 3, 0])}
    assert weights == {"masked_lm": ("float32", [1, 1, 1, 1, 1, 1, 0])}


def test_left_to_right_has_no_target_beyond_a_sequence(write, record):
    path = write("a.tfrecord", [record(**PLAIN | PACKED)])
    _, _, weights = first(pretraining_dataset(path, batch_size=1, objective=NEXT_TOKENS))
    assert weights == {"masked_lm": ("float32", [1, 1, 1, 0, 1, 1, 0])}


def test_the_objective_masked_ignores_labels(write, record):
    path = write("a.tfrecord", [record(**PLAIN | PACKED, **MASKS, **LABELS)])
    inputs, targets, weights = first(pretraining_dataset(path, batch_size=1, objective=MASKED))
    assert "next_sentence_positions" not in inputs
    assert (list(targets), list(weights)) == (["masked_lm"], ["masked_lm"])
