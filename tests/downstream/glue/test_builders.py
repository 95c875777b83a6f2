"""The TFDS builders of GLUE give the examples of the official files in the same order."""

import dataclasses

import pytest
import tensorflow_datasets as tfds

from bert_keras.downstream.classification import TABLE_TASKS
from bert_keras.downstream.glue.task import GLUE_TASKS
from bert_keras.errors import InputError


@pytest.fixture
def builders(glue_folder, tmp_path, monkeypatch):
    """Makes the GLUE builders read the small folder instead of downloaded files."""

    def extracted(manager, url):
        return glue_folder

    def downloaded(manager, urls):
        if isinstance(urls, str):
            return glue_folder / "AX" / "diagnostic.tsv"
        # MRPC comes from Microsoft's files: train and dev are one file, and ids separate them.
        train, dev = ((glue_folder / "MRPC" / f"{n}.tsv").read_text() for n in ("train", "dev"))
        paths = {name: tmp_path / f"{name}.txt" for name in urls}
        paths["train"].write_text(train + "".join(dev.splitlines(keepends=True)[1:]))
        paths["dev_ids"].write_text("2\t4\n")
        paths["test"] = glue_folder / "MRPC" / "test.tsv"
        return paths

    manager = tfds.download.DownloadManager
    monkeypatch.setattr(manager, "download_and_extract", extracted)
    monkeypatch.setattr(manager, "download", downloaded)
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path / "tfds"))


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_builders_give_the_examples_of_the_files(glue_folder, builders, name):
    task = GLUE_TASKS[name]
    splits, files = task.files(f"tfds:glue/{name}"), task.files(glue_folder)
    assert splits.keys() == files.keys()
    for split, path in splits.items():
        expected = [example[:2] for example in task.read(files[split], split=split)]
        examples = [example[:2] for example in task.read(path, split=split)]
        assert [label for _, label in examples] == pytest.approx([label for _, label in expected])
        assert [texts for texts, _ in examples] == [texts for texts, _ in expected]


def test_the_classification_task_reads_builders(builders):
    task = dataclasses.replace(TABLE_TASKS["classification"], text_columns=("sentence",))
    files = task.files("tfds:glue/sst2")
    assert files == {
        "train": "tfds:glue/sst2:train",
        "dev": "tfds:glue/sst2:validation",
        "test": "tfds:glue/sst2:test",
    }
    examples = task.read(files["train"])
    assert sorted(example.label for example in examples) == ["negative", "positive"]
    assert len(task.read(files["test"], split="test")) == 1


def test_unknown_builders_and_splits_are_refused(builders):
    with pytest.raises(InputError, match=r"tfds:glue/nix cannot be read"):
        GLUE_TASKS["cola"].read("tfds:glue/nix:train")
    with pytest.raises(InputError, match=r"'glue/cola' has the splits train, validation, test"):
        GLUE_TASKS["cola"].read("tfds:glue/cola:dev")
