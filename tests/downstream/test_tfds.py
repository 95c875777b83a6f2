"""Data sets of TFDS that are folders, that cannot be downloaded, and that do not exist."""

import logging
import time

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.swag import ENDINGS, SWAG_TASK, SwagExample
from bert_keras.downstream.tfds import tfds_files
from bert_keras.errors import InputError

SQUAD_FEATURES = {
    **dict.fromkeys(("id", "question", "context"), tf.string),
    "answers": tfds.features.Sequence({"text": tf.string, "answer_start": tf.int32}),
    "is_impossible": tf.bool,
}
SQUAD_ROW = {
    "id": "q1",
    "question": "who?",
    "context": "Lyon won.",
    "answers": {"text": ["Lyon"], "answer_start": [0]},
    "is_impossible": False,
}
SWAG_FEATURES = {
    **dict.fromkeys(("sent1", "sent2", *ENDINGS), tf.string),
    "label": tfds.features.ClassLabel(num_classes=4),
}
SWAG_ROW = {"sent1": "He sits.", "sent2": "She", **dict.fromkeys(ENDINGS, "sings"), "label": 2}


class Unreachable(tfds.core.GeneratorBasedBuilder):
    """A data set at a port of this machine at which no server listens."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({}))

    def _split_generators(self, manager):
        return {"train": self._generate_examples(manager.download("http://127.0.0.1:9/rows"))}

    def _generate_examples(self, path):
        yield from ()


@pytest.fixture
def written(tmp_path):
    """Writes a data set without the code of a builder, and returns its path `tfds:FOLDER`."""

    def write(features, rows):
        dataset = tf.data.Dataset.from_tensors(rows)
        tfds.dataset_builders.store_as_tfds_dataset(
            name="small",
            version="1.0.0",
            data_dir=tmp_path,
            features=tfds.features.FeaturesDict(features),
            split_datasets={"train": dataset, "validation": dataset},
        )
        return f"tfds:{tmp_path}/small/1.0.0"

    return write


def test_swag_is_read_from_a_folder(written):
    path = written(SWAG_FEATURES, SWAG_ROW)
    files = SWAG_TASK.files(path)
    assert files == {"train": f"{path}:train", "dev": f"{path}:validation"}
    expected = SwagExample("He sits.", "She", ("sings",) * 4, 2)
    assert SWAG_TASK.read(files["dev"], split="dev") == [expected]


def test_squad_is_read_from_a_folder(written):
    path = written(SQUAD_FEATURES, SQUAD_ROW)
    files = named_task("squad2").files(path)
    assert files == {"train": f"{path}:train", "dev": f"{path}:validation"}
    (question,) = named_task("squad2").read(files["dev"], split="dev")
    assert (question.id, question.answers[0].text) == ("q1", "Lyon")


def test_a_failed_download_gives_one_sentence_within_seconds(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    start = time.monotonic()
    message = r"tfds:unreachable could not be downloaded from 127.0.0.1; .*TFDS folder \(.*1\.0\.0"
    with pytest.raises(InputError, match=message):
        tfds_files("tfds:unreachable")
    assert time.monotonic() - start < 10  # with the tries of TFDS it takes 200 seconds
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"downloading tfds:unreachable to {tmp_path}/unreachable/1.0.0\n"
    assert not caplog.records
    assert logging.getLogger("urllib3.connectionpool").level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nix", "cannot be read: Dataset nix not found"),
        ("glue/nix", "cannot be read: .*BuilderConfig nix not found"),
        ("glue/mrpc:9.9.9", "cannot be read: .*only: 2.0.0"),
        ("imagenet2012", "cannot be read: Manual directory"),
        ("kaggle:nix", "cannot be read: Namespace kaggle not found"),
        ("huggingface:swag/regular", "is a data set of Hugging Face, which TFDS does not contain"),
    ],
)
def test_data_sets_that_tfds_cannot_give_are_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    with pytest.raises(InputError, match=f"tfds:{name} {message}"):
        tfds_files(f"tfds:{name}")
