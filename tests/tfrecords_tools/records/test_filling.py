import numpy as np
import pytest

from tfrecords_tools.records.instances import filled_rows


def filled(sizes, *, length=128, most=8, seed=1):
    sizes = np.array(sizes)
    generator = np.random.default_rng(seed)
    return filled_rows(sizes, length=length, most=most, generator=generator)


@pytest.mark.parametrize("most", [1, 2, 8])
def test_every_sequence_has_a_place_of_its_own(most):
    sizes = np.random.default_rng(0).integers(3, 129, 500)
    order, rows, columns = filled(sizes, most=most)
    assert sorted(order.tolist()) == list(range(500))
    assert (np.diff(rows) >= 0).all()
    assert np.bincount(rows).min() >= 1
    assert np.bincount(rows).max() <= most
    ends = columns + sizes[order]
    assert ends.max() <= 128
    follows = np.diff(rows) == 0
    assert (columns[1:][follows] == ends[:-1][follows]).all()
    assert (columns[1:][~follows] == 0).all()


def test_little_is_left_over():
    sizes = np.random.default_rng(0).integers(3, 65, 5000)
    _, rows, _ = filled(sizes)
    assert 1 - sizes.sum() / (128 * (rows[-1] + 1)) < 0.03


def test_sequences_that_fill_a_record_are_alone():
    _, rows, columns = filled([128, 128, 60, 68])
    assert rows[-1] == 2
    assert sorted(columns.tolist()) in ([0, 0, 0, 60], [0, 0, 0, 68])


def test_the_order_is_drawn():
    sizes = [128] * 50
    assert filled(sizes)[0].tolist() != filled(sizes, seed=2)[0].tolist() != list(range(50))
