import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from bert_keras.errors import InputError
from tfrecords_tools.inputs.corpus import digest, fingerprint, lines_of, units
from tfrecords_tools.inputs.decoding import Repairs


def split(num_examples):
    texts = [
        f"document {number}\n\nsecond line" if number else "" for number in range(num_examples)
    ]
    return tf.data.Dataset.from_tensor_slices({"text": texts, "number": list(range(num_examples))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two datasets, written by TFDS itself: one with two splits, one with one."""
    folder = tmp_path_factory.mktemp("tfds")
    features = tfds.features.FeaturesDict({"text": tfds.features.Text(), "number": tf.int64})
    for name, splits in {
        "two_splits": {"train": split(100), "test": split(7)},
        "one_split": {"train": split(3)},
    }.items():
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name, version="1.2.0", data_dir=folder, split_datasets=splits,
            features=features, disable_shuffling=True,
        )  # fmt: skip
    return folder


@pytest.fixture(autouse=True)
def _data_dir(folder, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))


def read(path, *, unit_bytes=1 << 20, text_field="text"):
    repairs, lines = Repairs(), []
    for unit in units([path], unit_bytes=unit_bytes, text_field=text_field):
        lines += lines_of(unit, repairs=repairs)
    return lines, repairs


def document(number):
    return [f"document {number}", "second line", ""] if number else []


def documents(*numbers):
    return [line for number in numbers for line in document(number)]


def test_examples_are_documents(folder):
    lines, repairs = read("tfds:one_split")
    assert lines == documents(1, 2)
    assert repairs.remarks() == [
        "records without text: 1 (tfds:one_split:1.2.0?split=train, example 1)"
    ]
    assert read("tfds:one_split:1.2.0?split=train")[0] == lines
    assert read(f"tfds:{folder}/one_split/1.2.0")[0] == lines


def test_splits_and_their_parts():
    assert read("tfds:two_splits?split=test")[0] == documents(*range(7))
    assert read("tfds:two_splits?split=train[:0]+test[:1]")[0] == []
    assert read("tfds:two_splits?split=train[10:12]+test[-1:]")[0] == documents(10, 11, 6)


def test_parts_do_not_change_the_lines():
    path = "tfds:two_splits?split=train[5:]+test"
    all_units = units([path], unit_bytes=60)
    assert len(all_units) > 5
    paths = dict.fromkeys(part.path for unit in all_units for part in unit)
    assert list(paths) == [f"tfds:two_splits:1.2.0?split={name}" for name in ("train", "test")]
    assert read(path, unit_bytes=60)[0] == read(path)[0] == documents(*range(5, 100), *range(7))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("two_splits", r"has the splits train, test; name one: tfds:two_splits\?split=SPLIT"),
        ("two_splits?split=dev", r"has no split dev; expected one of train, test, or a part"),
        (
            "two_splits?part=x",
            r"is not the name of a dataset; expected tfds:two_splits\?split=SPLIT",
        ),
        ("no_such_thing", r"is not known to TFDS \(Dataset no_such_thing not found.*tfds:FOLDER"),
        ("wikipedia/20230601.en", r"is not prepared in .*tfds\.builder\('wikipedia/20230601.en'\)"),
        ("wikipedia/20230601.en:9.9.9", r"is not known to TFDS \(.*9\.9\.9"),
    ],
)
def test_invalid_names_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        read(f"tfds:{name}")


def test_features_without_text_are_refused():
    with pytest.raises(InputError, match=r'has no feature "body", only number, text; name the'):
        read("tfds:one_split", text_field="body")
    with pytest.raises(InputError, match=r'the feature "number" contains .*int64.*, not text'):
        read("tfds:one_split", text_field="number")


def test_digest_and_fingerprint(folder):
    ((part,),) = units(["tfds:two_splits?split=test"], unit_bytes=1 << 20)
    path = part.path
    entry = digest(path)
    assert entry == digest("tfds:two_splits?split=test")
    assert entry["path"] == path == "tfds:two_splits:1.2.0?split=test"
    assert entry["examples"] == 7 and len(entry["sha256"]) == 64
    before = fingerprint(path)
    assert before["bytes"] == entry["bytes"] > 0
    (shard,) = (folder / "two_splits" / "1.2.0").glob("*test*")
    content = shard.read_bytes()
    shard.write_bytes(content)
    assert fingerprint(path) != before
