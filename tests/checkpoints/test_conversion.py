import dataclasses

import numpy as np
import pytest

from bert_keras.checkpoints import native
from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.conversion import student_layers, student_of
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.models import BertMaskedLM

POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"


def test_convert_prints_a_table_and_reads_back(checkpoint, tmp_path, capsys):
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


def test_a_weight_that_differs_after_writing_is_an_internal_error(
    checkpoint, tmp_path, monkeypatch
):
    write = native.write

    def write_zeros(original, folder):
        name = "encoder/pooler/bias"
        tensor = dataclasses.replace(original.tensors[name], read=lambda: np.zeros(8, np.float32))
        return write(
            dataclasses.replace(original, tensors={**original.tensors, name: tensor}), folder
        )

    monkeypatch.setattr(native, "write", write_zeros)
    with pytest.raises(RuntimeError, match=r"encoder/pooler/bias differs in the files"):
        write_checkpoint(checkpoint("BertEncoder"), tmp_path / "ours", format="bert-keras")
    assert not any(tmp_path.iterdir())


def test_ignore_can_name_the_training_state(checkpoint, tmp_path, capsys):
    original = checkpoint("BertPretrainer")
    state = TrainingState(step=7, momentums=original.tensors, velocities=original.tensors)
    write_checkpoint(
        dataclasses.replace(original, state=state), tmp_path / "a", format="bert-keras"
    )
    command = ["convert", "--ignore", "global_step", str(tmp_path / "a")]
    for format in ("bert-keras", "google"):
        assert main([*command, str(tmp_path / format), "--to", format]) == 0
        assert "  unused         global_step" in capsys.readouterr().out
        assert open_checkpoint(tmp_path / format).state is None


def test_convert_writes_a_part_of_a_model(checkpoint, tmp_path, capsys):
    original = checkpoint("BertPretrainer")
    write_checkpoint(original, tmp_path / "ours", format="bert-keras")
    command = ["convert", str(tmp_path / "ours"), str(tmp_path / "words"), "--model"]
    assert main([*command, "BertMaskedLM"]) == 0
    table = capsys.readouterr().out
    assert "  unused      next_sentence/dense/bias" in table
    part = open_checkpoint(tmp_path / "words")
    assert part.metadata.model == "BertMaskedLM"
    assert set(original.tensors) - set(part.tensors) == {
        "next_sentence/dense/bias",
        "next_sentence/dense/kernel",
    }
    assert main([*command, "BertQuestionAnswering"]) == 2
    message = (
        "a BertQuestionAnswering needs weights of span, which the BertPretrainer does not have; it"
    )
    assert message in capsys.readouterr().err
    assert main([*command, "BertClassifier"]) == 2
    assert (
        "a BertClassifier needs weights of classification, which the BertPretrainer"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "new"], "nothing does not exist; expected the folder of a checkpoint on"),
        (["gs://x/y", "new"], "gs://x/y is not on this machine; copy the folder of the check"),
        (["ours", "gs://x/y"], "gs://x/y is not on this machine; write a local folder and copy"),
        (["ours/weights.safetensors", "new"], "is a file; give the folder of the checkpoint, ours"),
        ([".", "new"], ". itself is not a checkpoint; give ours"),
        (["ours", "ours"], "ours exists already; choose another name or remove it first"),
        (["ours", "new", "--to", "google"], "google cannot store multiple_choice/dense/kernel"),
    ],
)
def test_user_errors_are_one_line(checkpoint, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(checkpoint("BertMultipleChoice"), "ours", format="bert-keras")
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and message in error[0]
    assert {path.name for path in tmp_path.iterdir()} == {"ours"}


@pytest.mark.parametrize(
    ("num_layers", "of", "layers"),
    [
        (6, 12, [0, 2, 4, 7, 9, 11]),
        (3, 6, [0, 2, 5]),
        (4, 4, [0, 1, 2, 3]),
        (1, 5, [0]),
        (2, 24, [0, 23]),
    ],
)
def test_student_layers_are_evenly_spaced(num_layers, of, layers):
    assert student_layers(num_layers, of=of) == layers


def test_a_student_of_bert_is_a_distilbert(checkpoint, tmp_path, capsys):
    teacher = checkpoint("BertPretrainer", num_layers=5)
    write_checkpoint(teacher, tmp_path / "teacher", format="bert-keras")
    command = ["convert", str(tmp_path / "teacher"), str(tmp_path / "student"), "--layers", "3"]
    assert main([*command, "--to", "huggingface"]) == 0
    assert "  note        the student has layers 0, 2, 4 of 0 to 4\n" in capsys.readouterr().out
    student = open_checkpoint(tmp_path / "student")
    assert student.metadata.model == "BertMaskedLM" and student.vocabulary == teacher.vocabulary
    assert family_of(student.metadata.config).kind == "distilbert"
    assert student.metadata.config.num_layers == 3
    source = {"layer_0": "layer_0", "layer_1": "layer_2", "layer_2": "layer_4"}
    original = {name: tensor.read() for name, tensor in teacher.tensors.items()}
    original[POSITIONS] = original[POSITIONS] + original.pop(SEGMENTS)[0]
    for name, tensor in student.tensors.items():
        first_part, layer, *rest = name.split("/")
        expected = original["/".join([first_part, source.get(layer, layer), *rest])]
        np.testing.assert_array_equal(tensor.read(), expected, name)


def test_a_student_with_all_layers_has_the_logits_of_its_teacher(checkpoint):
    """What is of one text alone: there is no second segment."""
    teacher = checkpoint("BertMaskedLM", has_pooler=False)
    models = [
        BertMaskedLM.from_checkpoint(each, metadata=each.metadata, source="a test")
        for each in (teacher, student_of(teacher, num_layers=2))
    ]
    ids = np.array([[2, 7, 8, 9, 3]])
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    inputs["masked_lm_positions"] = np.array([[1, 3]])
    logits = [np.asarray(model(inputs)["masked_lm"]) for model in models]
    np.testing.assert_allclose(logits[1], logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"embedding_size": 6, "shares_layers": True}, {"pooler"}),
        ({"position_offset": 2, "num_segments": 1}, {"pooler", "layer_1", "layer_2"}),
    ],
)
def test_students_of_relatives_keep_their_family(checkpoint, changes, absent):
    teacher = checkpoint("BertClassifier", num_layers=4, **changes)
    student = student_of(teacher, num_layers=2)
    assert student.metadata.model == "BertEncoder" and not student.metadata.labels
    assert family_of(student.metadata.config) is family_of(teacher.metadata.config)
    parts = {name.split("/")[1] for name in student.tensors}
    assert {name.split("/")[1] for name in teacher.tensors} - {"dense"} - parts - absent == (
        {"layer_3"} if "layer_1" in absent else set()
    )
    np.testing.assert_array_equal(
        student.tensors[SEGMENTS].read(), teacher.tensors[SEGMENTS].read()
    )


def test_a_student_with_more_layers_than_its_teacher_is_refused(checkpoint):
    with pytest.raises(InputError, match=r"the student has 3 layers; expected 1 to 2"):
        student_of(checkpoint("BertEncoder"), num_layers=3)


def test_a_student_has_no_training_state(checkpoint):
    original = checkpoint("BertMaskedLM", has_pooler=False)
    original = dataclasses.replace(original, state=object())
    assert student_of(original, num_layers=1).state is None
