"""The TFDS builders of GLUE give the examples of the official files in the same order."""

import dataclasses
import json

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.downstream.classification import TABLE_TASKS
from bert_keras.downstream.glue.task import GLUE_TASKS
from bert_keras.errors import InputError
from bert_keras.models import BertEncoder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary


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


def test_the_command_trains_and_scores_with_a_builder(builders, tmp_path, capsys):
    tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "a", "man")))
    config = BertConfig(
        vocab_size=len(tokenizer.vocabulary), hidden_size=8, num_layers=1, num_heads=2
    )
    start = BertEncoder(config).save_pretrained(tmp_path / "encoder", tokenizer=tokenizer)
    data = ["--data", "tfds:glue/mrpc"]
    output = str(tmp_path / "run")
    assert main(["finetune", "mrpc", *data, "--from", str(start), "--output", output]) == 0
    capsys.readouterr()
    assert main(["evaluate", "mrpc", *data, "--model", f"{output}/model", "--json"]) == 0
    assert "accuracy" in json.loads(capsys.readouterr().out)


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


def test_a_builder_without_the_index_of_a_row_is_refused(tmp_path):
    row = tf.data.Dataset.from_tensors({"premise": "a", "hypothesis": "b", "label": "neutral"})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="pairs",
        version="1.0.0",
        data_dir=tmp_path,
        features=tfds.features.FeaturesDict(dict.fromkeys(row.element_spec, tf.string)),
        split_datasets={"train": row},
    )
    with pytest.raises(InputError, match=r"train, row 1 has no column 'idx'; it has 'hypothesis'"):
        GLUE_TASKS["mnli"].read(f"tfds:{tmp_path}/pairs/1.0.0:train")


def test_unknown_builders_and_splits_are_refused(builders):
    with pytest.raises(InputError, match=r"tfds:glue/nix cannot be read"):
        GLUE_TASKS["cola"].read("tfds:glue/nix:train")
    with pytest.raises(InputError, match=r"'glue/cola' has the splits train, validation, test"):
        GLUE_TASKS["cola"].read("tfds:glue/cola:dev")
