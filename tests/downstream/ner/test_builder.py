"""The `conll2003` builder of TFDS reads a small file in its format."""

import pytest
import tensorflow_datasets as tfds

from bert_keras.downstream.ner.task import NER_TASK


@pytest.fixture
def builder(tmp_path, monkeypatch):
    lines = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nsaid VBD B-VP O\n\nRome NNP B-NP B-LOC\n\n"
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(lines)
    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "download_and_extract", lambda manager, url: tmp_path)
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))
    return "tfds:conll2003"


def test_the_conll_2003_builder_is_read(builder):
    files = NER_TASK.files(builder)
    assert files == {split: f"{builder}:{split}" for split in ("train", "dev", "test")}
    for split, path in files.items():
        sentences = sorted(NER_TASK.read(path, split=split), key=lambda each: each.words)
        assert [(s.words, s.tags, s.document) for s in sentences] == [
            (("EU", "said"), ("B-ORG", "O"), 0),
            (("Rome",), ("B-LOC",), 0),
        ]
