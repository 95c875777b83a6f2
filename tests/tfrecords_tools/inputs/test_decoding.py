import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inputs.decoding import NUM_LOCATIONS, Decoder, Location, Repairs


def noted(*numbers, path="a.txt"):
    repairs = Repairs()
    for number in numbers:
        repairs.note("records_damaged_dropped", Location(path, number))
    repairs.text_lines[path] += len(numbers)
    return repairs


def summed(*parts):
    total = Repairs()
    for part in parts:
        total += part
    return total


def test_sums_of_repairs_keep_the_order_of_the_corpus():
    one, two, three = noted(1, 2), noted(3, 4, 5, 6), noted(7, path="b.txt")
    total = summed(one, two, three)
    assert total == summed(one, summed(two, three))
    assert total.summary() == {"records_damaged_dropped": 7}
    assert [location.number for location in total.locations["records_damaged_dropped"]] == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert len(total.locations["records_damaged_dropped"]) == NUM_LOCATIONS
    assert one == noted(1, 2)
    one += three
    assert one.counts["records_damaged_dropped"] == 3


def test_lines_are_counted_from_the_start_of_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x\n" * 1_500_000)
    assert Location(str(path), 3, start=2_400_000).described() == f"{path}, line 1,200,003"
    assert Location("a.parquet", 3, "row").described() == "a.parquet, row 3"


def test_dropped_lines_are_counted():
    repairs = Repairs()
    lines = Decoder("a.txt", repairs, "skip").lines(b"\xff\nx\n\xff\ne\xcc\x81\n", 1)
    assert lines == ["x", "\u00e9"]
    assert repairs.locations["lines_decomposed"] == (Location("a.txt", 4),)


def test_the_error_of_a_corpus_without_text_names_its_files():
    repairs = summed(*(noted(path=f"{number}.txt") for number in range(7)))
    repairs.note("empty_files", Location("empty.txt", 1))
    with pytest.raises(
        InputError,
        match=r"\(empty files: 1 \(empty.txt\); files without text: 7 \(0.txt; .*4.txt; \.\.\.\)",
    ):
        repairs.expect_text()
    with pytest.raises(InputError, match=r"contains no text \(no files\)"):
        Repairs().expect_text()
    summed(repairs, noted(1)).expect_text()
