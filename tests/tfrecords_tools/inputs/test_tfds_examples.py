import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from tfrecords_tools.inputs.corpus import digest, fingerprint, lines_of, units
from tfrecords_tools.inputs.decoding import Repairs

tfds = pytest.importorskip("tensorflow_datasets", reason='needs TFDS: "bert-keras[tfds]"')
pytestmark = pytest.mark.extra


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


def read(place, *, unit_bytes=1 << 20, text_field="text"):
    repairs, lines = Repairs(), []
    for unit in units([place], unit_bytes=unit_bytes, text_field=text_field):
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


def test_the_corpus_is_the_same_however_it_is_cut():
    place = "tfds:two_splits?split=train[5:]+test"
    found = units([place], unit_bytes=60)
    assert len(found) > 5
    paths = dict.fromkeys(part.path for unit in found for part in unit)
    assert list(paths) == [f"tfds:two_splits:1.2.0?split={name}" for name in ("train", "test")]
    assert read(place, unit_bytes=60)[0] == read(place)[0] == documents(*range(5, 100), *range(7))


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("two_splits", r"has the splits train, test; say which: tfds:two_splits\?split=SPLIT"),
        ("two_splits?split=dev", r"asks for the split dev; expected one of train, test, or a part"),
        ("two_splits?part=x", r"is no name of a dataset; expected tfds:two_splits\?split=SPLIT"),
        ("no_such_thing", r"is not known to TFDS \(Dataset no_such_thing not found.*tfds:FOLDER"),
        ("wikipedia/20230601.en", r"is not prepared in .*; run `tfds build wikipedia/20230601.en`"),
        ("wikipedia/20230601.en:9.9.9", r"is not known to TFDS \(.*9\.9\.9"),
    ],
)
def test_names_that_mean_nothing(place, message):
    with pytest.raises(InputError, match=message):
        read(f"tfds:{place}")


def test_features_that_hold_no_text():
    with pytest.raises(InputError, match=r'has no feature "body", only number, text; say which'):
        read("tfds:one_split", text_field="body")
    with pytest.raises(InputError, match=r'the feature "number" holds .*int64.*, not text'):
        read("tfds:one_split", text_field="number")


def test_digest_and_fingerprint(folder):
    ((part,),) = units(["tfds:two_splits?split=test"], unit_bytes=1 << 20)
    place = part.path
    found = digest(place)
    assert found == digest("tfds:two_splits?split=test")
    assert found["path"] == place == "tfds:two_splits:1.2.0?split=test"
    assert found["examples"] == 7 and len(found["sha256"]) == 64
    before = fingerprint(place)
    assert before["bytes"] == found["bytes"] > 0
    (shard,) = (folder / "two_splits" / "1.2.0").glob("*test*")
    content = shard.read_bytes()
    shard.write_bytes(content)
    assert fingerprint(place) != before
