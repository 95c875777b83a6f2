"""What an error message about records or vocabularies tells the user to do succeeds."""

import json
import shutil
from pathlib import Path

import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import NEXT_TOKENS, DynamicMasking
from bert_keras.data.record_file import readable_records
from bert_keras.data.records import pretraining_dataset, record_files
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import vocabulary_from
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcd"))
POLICY = MaskingPolicy(max_predictions=2)
MASKING = DynamicMasking(Masker(POLICY, VOCABULARY), seed=1)
PLAIN = dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"))


def read(path, **options):
    return [*pretraining_dataset(path, batch_size=1, **options)]


@pytest.mark.parametrize(
    ("features", "refused", "remedy", "corrected"),
    [
        (PLAIN, {}, "pass `masking`, which masks them with a policy", {"masking": MASKING}),
        ({}, {"masking": MASKING}, "contains masked records; leave out `masking`", {}),
        (
            PLAIN,
            {"masking": MASKING, "objective": NEXT_TOKENS},
            "left-to-right masks no tokens; leave out `masking`",
            {"objective": NEXT_TOKENS},
        ),
    ],
)
def test_the_remedy_for_masking_succeeds(write, make_example, features, refused, remedy, corrected):
    path = write("a.tfrecord", [make_example(1, **features)])
    with pytest.raises(InputError, match=remedy):
        read(path, **refused)
    assert read(path, **corrected)


def test_records_are_read_from_a_folder_that_has_some(write, make_example, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="; write records into it or name another folder"):
        record_files(empty)
    path = write("a.tfrecord", [make_example(1)])
    assert record_files(tmp_path) == [path]
    shutil.copy(path, empty)
    assert read(empty)


@pytest.mark.parametrize(
    ("remedy", "damage"),
    [
        (
            r"\(its first record is truncated or corrupt\); write the records again",
            lambda a: a[:20],
        ),
        ("a.tfrecord is truncated or corrupt; write the records again", lambda a: a[:-20]),
    ],
)
def test_a_damaged_file_is_written_again(write, make_example, remedy, damage):
    path = write("a.tfrecord", 2 * [make_example(1)])
    Path(path).write_bytes(damage(Path(path).read_bytes()))
    with pytest.raises(InputError, match=remedy):
        read(path)
    assert read(write("a.tfrecord", 2 * [make_example(1)]))


def test_a_file_with_records_of_two_kinds_is_written_again(write, make_example):
    path = write("a.tfrecord", [make_example(1), make_example(2, input_mask=None)])
    remedy = "a record without the features of the first record; write the records again"
    with pytest.raises(InputError, match=remedy), readable_records():
        read(path)
    assert read(write("a.tfrecord", 2 * [make_example(1)]))


def test_a_missing_file_is_restored(write, make_example):
    path = write("a.tfrecord", [make_example(1)])
    records = pretraining_dataset(path, batch_size=1)
    stored = shutil.move(path, f"{path}.old")
    missing = pytest.raises(
        InputError, match=r"a record file is missing .*a.tfrecord.*; restore it"
    )
    with missing, readable_records():
        next(iter(records))
    shutil.move(stored, path)
    assert [*records]


def without_merges(rules):
    document = json.loads(rules)
    document["model"]["merges"] = []
    return json.dumps(document)


@pytest.mark.parametrize(
    ("family", "remedy", "damage"),
    [
        ("albert", "copy it again, or give the tokenizer.json of the checkpoint", lambda a: a[:99]),
        ("roberta", "has no merges; copy its files again", without_merges),
    ],
)
def test_a_damaged_tokenizer_is_copied_again(subwords, tmp_path, family, remedy, damage):
    path = tmp_path / "tokenizer.json"
    rules = read_rules(subwords[family], {"add_prefix_space": False})
    path.write_text(damage(rules), "utf-8")
    with pytest.raises(InputError, match=remedy):
        vocabulary_from(path)
    path.write_text(rules, "utf-8")
    assert len(vocabulary_from(path)) == 400
