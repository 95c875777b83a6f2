"""The real `conll2003` builder of TFDS over a small file in its format."""

import pytest

from bert_keras.tasks.ner.task import NER_TASK

pytestmark = pytest.mark.extra
tfds = pytest.importorskip("tensorflow_datasets", reason='needs TFDS: "bert-keras[tfds]"')


@pytest.fixture
def place(tmp_path, monkeypatch):
    lines = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nsaid VBD B-VP O\n\nRome NNP B-NP B-LOC\n\n"
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text(lines)
    monkeypatch.setattr(
        tfds.download.DownloadManager,
        "download_and_extract",
        lambda manager, url: tmp_path,
    )
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))
    return "tfds:conll2003"


def test_conll_2003_of_tfds(place):
    files = NER_TASK.files(place)
    assert files == {split: f"{place}:{split}" for split in ("train", "dev", "test")}
    read = {split: sorted(NER_TASK.read(p), key=lambda s: s.words) for split, p in files.items()}
    for sentences in read.values():
        assert [(s.words, s.tags, s.document) for s in sentences] == [
            (("EU", "said"), ("B-ORG", "O"), 0),
            (("Rome",), ("B-LOC",), 0),
        ]
