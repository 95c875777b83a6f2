import dataclasses

import numpy as np
import pytest

from bert_keras.checkpoints import native
from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main


def test_the_table_says_what_went_where(checkpoint, tmp_path, capsys):
    write_checkpoint(checkpoint("BertClassifier"), tmp_path / "ours", format="bert-keras")
    arguments = [str(tmp_path / "ours"), str(tmp_path / "theirs"), "--to", "huggingface"]
    assert main(["convert", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}/ours -> {tmp_path}/theirs"
    assert lines[1].split() == ["model", "BertClassifier,", "2", "layers", "of", "8"]
    assert lines[2].split() == ["encoder", "37", "tensors", "2,064", "weights"]
    assert "  labels          no, yes, perhaps" in lines
    assert lines[-1].endswith("every tensor equal, bit for bit")
    assert main(["convert", str(tmp_path / "theirs"), str(tmp_path / "back")]) == 0
    for name in ("bert_keras.json", "vocab.txt", "weights.safetensors"):
        ours, back = tmp_path / "ours" / name, tmp_path / "back" / name
        assert ours.read_bytes() == back.read_bytes()


def test_what_does_not_come_back_is_our_own_fault(checkpoint, tmp_path, monkeypatch):
    write = native.write

    def spoil(given, place):
        name = "encoder/pooler/bias"
        tensor = dataclasses.replace(given.tensors[name], read=lambda: np.zeros(8, np.float32))
        return write(dataclasses.replace(given, tensors={**given.tensors, name: tensor}), place)

    monkeypatch.setattr(native, "write", spoil)
    with pytest.raises(RuntimeError, match=r"encoder/pooler/bias does not come back"):
        write_checkpoint(checkpoint("BertEncoder"), tmp_path / "ours", format="bert-keras")
    assert not any(tmp_path.iterdir())


def test_a_training_state_is_left_by_name(checkpoint, tmp_path, capsys):
    given = checkpoint("BertPretrainer")
    state = TrainingState(step=7, momentums=given.tensors, velocities=given.tensors)
    write_checkpoint(dataclasses.replace(given, state=state), tmp_path / "a", format="bert-keras")
    command = ["convert", "--ignore", "global_step", str(tmp_path / "a")]
    for format in ("bert-keras", "google"):
        assert main([*command, str(tmp_path / format), "--to", format]) == 0
        assert "  left over      global_step" in capsys.readouterr().out
        assert open_checkpoint(tmp_path / format).state is None


def test_a_part_of_a_checkpoint_by_name(checkpoint, tmp_path, capsys):
    given = checkpoint("BertPretrainer")
    write_checkpoint(given, tmp_path / "ours", format="bert-keras")
    command = ["convert", str(tmp_path / "ours"), str(tmp_path / "words"), "--model"]
    assert main([*command, "BertMaskedLM"]) == 0
    table = capsys.readouterr().out
    assert "  left over   next_sentence/dense/bias" in table
    taken = open_checkpoint(tmp_path / "words")
    assert taken.card.model == "BertMaskedLM"
    assert set(given.tensors) - set(taken.tensors) == {
        "next_sentence/dense/bias",
        "next_sentence/dense/kernel",
    }
    assert main([*command, "BertQuestionAnswering"]) == 2
    said = (
        "a BertPretrainer has no weights of span for a BertQuestionAnswering; known of it: encoder"
    )
    assert said in capsys.readouterr().err
    assert main([*command, "BertClassifier"]) == 2
    assert "a BertPretrainer has no weights of classification for a" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "new"], "nothing does not exist; expected a checkpoint's folder on this"),
        (["hf://x/y", "new"], "hf://x/y is not on this machine; copy the checkpoint's folder here"),
        (["ours", "gs://x/y"], "gs://x/y is not on this machine; write here and copy it there"),
        (["ours/weights.safetensors", "new"], "is a file; give the checkpoint's folder, ours"),
        ([".", "new"], ". holds no checkpoint itself; give ours"),
        (["ours", "new", "--to", "onnx"], "no format is called 'onnx'; known: bert-keras"),
        (["ours", "ours"], "ours is already there; choose another name or remove it first"),
        (["ours", "new", "--to", "google"], "google has no place for multiple_choice/dense/kernel"),
    ],
)
def test_mistakes_are_one_sentence(checkpoint, tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(checkpoint("BertMultipleChoice"), "ours", format="bert-keras")
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and said in error[0]
    assert {path.name for path in tmp_path.iterdir()} == {"ours"}
