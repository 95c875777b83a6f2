import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inputs.decoding import NUM_PLACES, Place, Repairs


def noted(*numbers, path="a.txt"):
    repairs = Repairs()
    for number in numbers:
        repairs.note("records_damaged_dropped", Place(path, number))
    repairs.note_text(path, len(numbers))
    return repairs


def summed(*parts):
    total = Repairs()
    for part in parts:
        total += part
    return total


def test_repairs_add_up_in_the_order_of_the_corpus():
    one, two, three = noted(1, 2), noted(3, 4, 5, 6), noted(7, path="b.txt")
    total = summed(one, two, three)
    assert total == summed(one, summed(two, three))
    assert total.summary() == {"records_damaged_dropped": 7}
    assert [place.number for place in total.places["records_damaged_dropped"]] == [1, 2, 3, 4, 5]
    assert len(total.places["records_damaged_dropped"]) == NUM_PLACES
    assert one == noted(1, 2)
    one += three
    assert one.counts["records_damaged_dropped"] == 3


def test_lines_are_counted_from_the_top_of_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"x\n" * 1_500_000)
    assert Place(str(path), 3, start=2_400_000).described() == f"{path}, line 1,200,003"
    assert Place("a.parquet", 3, "row").described() == "a.parquet, row 3"


def test_a_corpus_of_no_lines_names_its_files():
    repairs = summed(*(noted(path=f"{number}.txt") for number in range(7)))
    repairs.note("empty_files", Place("empty.txt", 1))
    with pytest.raises(InputError, match=r"holds no text \(empty.txt; 0.txt; .*3.txt; \.\.\.\)"):
        repairs.expect_text()
    with pytest.raises(InputError, match=r"holds no text \(no files\)"):
        Repairs().expect_text()
    summed(repairs, noted(1)).expect_text()
