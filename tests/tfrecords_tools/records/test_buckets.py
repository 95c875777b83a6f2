import numpy as np
import pytest

from tfrecords_tools.records.buckets import bucket_sizes, read_bucket, write_buckets
from tfrecords_tools.records.objectives import Instance

NUM_BUCKETS = 5


def write(path, instances, *, seed=1, num_buckets=NUM_BUCKETS):
    generator = np.random.default_rng(seed)
    write_buckets(path, instances, num_buckets=num_buckets, generator=generator)
    return path


def read(paths, bucket):
    """Returns the instances of a bucket."""
    table = read_bucket(paths, num_buckets=NUM_BUCKETS, bucket=bucket)
    bucket_instances = {}
    for number, label, start, end in np.stack(table, axis=1).tolist():
        spans, _ = bucket_instances.get(number, ((), label))
        bucket_instances[number] = Instance((*spans, (start, end)), label)
    assert list(bucket_instances) == list(range(len(bucket_instances)))
    return list(bucket_instances.values())


def instances(count, first=0):
    return [
        Instance(tuple((n, n + k + 1) for k in range(n % 3 + 1)), n % 2)
        for n in range(first, first + count)
    ]


def test_every_instance_is_in_exactly_one_bucket(tmp_path):
    paths = [
        write(tmp_path / "a", instances(50)),
        write(tmp_path / "b", []),
        write(tmp_path / "c", instances(30, first=50), seed=2),
    ]
    buckets = [read(paths, bucket) for bucket in range(NUM_BUCKETS)]
    assert sorted(each for bucket in buckets for each in bucket) == sorted(instances(80))
    sizes = [sum(len(each.spans) for each in bucket) for bucket in buckets]
    assert bucket_sizes(paths, num_buckets=NUM_BUCKETS).tolist() == sizes
    for bucket in buckets:
        numbers = [each.spans[0][0] for each in bucket]
        assert numbers == sorted(numbers)


def test_a_file_without_instances_is_read(tmp_path):
    assert read([write(tmp_path / "a", [])], 3) == []


def test_buckets_are_even(tmp_path):
    write(tmp_path / "a", [Instance(((n, n + 1),)) for n in range(20_000)])
    sizes = bucket_sizes([tmp_path / "a"], num_buckets=NUM_BUCKETS)
    assert sizes.sum() == 20_000
    # five standard deviations of a binomial
    assert np.abs(sizes - 4000).max() < 5 * np.sqrt(20_000 * 0.2 * 0.8)


def test_the_seed_decides_the_bytes(tmp_path):
    same = [write(tmp_path / name, instances(40), seed=3).read_bytes() for name in "ab"]
    assert same[0] == same[1] != write(tmp_path / "c", instances(40), seed=4).read_bytes()


@pytest.mark.parametrize("num_buckets", [1, 3])
def test_all_buckets_together_contain_every_span(tmp_path, num_buckets):
    path = write(tmp_path / "a", instances(9), num_buckets=num_buckets)
    tables = [read_bucket([path], num_buckets=num_buckets, bucket=n) for n in range(num_buckets)]
    assert sum(len(table.starts) for table in tables) == 18
