import dataclasses

import numpy as np
import pytest

from bert_keras.architectures import family_of
from bert_keras.checkpoints import native
from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.conversion import layers_taken, student_of
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.models import BertMaskedLM

POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"


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


@pytest.mark.parametrize(
    ("num_layers", "of", "taken"),
    [
        (6, 12, [0, 2, 4, 7, 9, 11]),
        (3, 6, [0, 2, 5]),
        (4, 4, [0, 1, 2, 3]),
        (1, 5, [0]),
        (2, 24, [0, 23]),
    ],
)
def test_layers_are_taken_evenly_from_the_first_to_the_last(num_layers, of, taken):
    assert layers_taken(num_layers, of=of) == taken


def test_a_student_of_bert_is_a_distilbert_of_its_layers(checkpoint, tmp_path, capsys):
    teacher = checkpoint("BertPretrainer", num_layers=5)
    write_checkpoint(teacher, tmp_path / "teacher", format="bert-keras")
    command = ["convert", str(tmp_path / "teacher"), str(tmp_path / "student"), "--layers", "3"]
    assert main([*command, "--to", "huggingface"]) == 0
    assert "  note        of the layers 0 to 4: 0, 2, 4\n" in capsys.readouterr().out
    student = open_checkpoint(tmp_path / "student")
    assert student.card.model == "BertMaskedLM" and student.vocabulary == teacher.vocabulary
    assert family_of(student.card.config).kind == "distilbert"
    assert student.card.config.num_layers == 3
    source = {"layer_0": "layer_0", "layer_1": "layer_2", "layer_2": "layer_4"}
    given = {name: tensor.read() for name, tensor in teacher.tensors.items()}
    given[POSITIONS] = given[POSITIONS] + given.pop(SEGMENTS)[0]
    for name, tensor in student.tensors.items():
        room, layer, *rest = name.split("/")
        expected = given["/".join([room, source.get(layer, layer), *rest])]
        np.testing.assert_array_equal(tensor.read(), expected, name)


def test_a_student_of_all_layers_answers_as_its_teacher(checkpoint):
    """What is of one text alone: there is no second segment."""
    teacher = checkpoint("BertMaskedLM", has_pooler=False)
    models = [
        BertMaskedLM.from_checkpoint(each, card=each.card, source="a test")
        for each in (teacher, student_of(teacher, num_layers=2))
    ]
    ids = np.array([[2, 7, 8, 9, 3]])
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    inputs["masked_lm_positions"] = np.array([[1, 3]])
    logits = [np.asarray(model(inputs)["masked_lm"]) for model in models]
    np.testing.assert_allclose(logits[1], logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"embedding_size": 6, "shares_layers": True}, {"pooler"}),
        ({"position_offset": 2, "num_segments": 1}, {"pooler", "layer_1", "layer_2"}),
    ],
)
def test_students_of_relatives_keep_their_family(checkpoint, changes, left):
    teacher = checkpoint("BertClassifier", num_layers=4, **changes)
    student = student_of(teacher, num_layers=2)
    assert student.card.model == "BertEncoder" and not student.card.labels
    assert family_of(student.card.config) is family_of(teacher.card.config)
    kept = {name.split("/")[1] for name in student.tensors}
    assert {name.split("/")[1] for name in teacher.tensors} - {"dense"} - kept - left == (
        {"layer_3"} if "layer_1" in left else set()
    )
    np.testing.assert_array_equal(
        student.tensors[SEGMENTS].read(), teacher.tensors[SEGMENTS].read()
    )


def test_more_layers_than_there_are(checkpoint):
    with pytest.raises(InputError, match=r"3 layers are asked of a model of 2; expected 1 to 2"):
        student_of(checkpoint("BertEncoder"), num_layers=3)


def test_a_student_has_no_training_state(checkpoint):
    given = checkpoint("BertMaskedLM", has_pooler=False)
    given = dataclasses.replace(given, state=object())
    assert student_of(given, num_layers=1).state is None
