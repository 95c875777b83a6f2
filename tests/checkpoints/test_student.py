"""Fewer layers of a teacher, its embeddings and what heads can do without a pooler."""

import dataclasses

import numpy as np
import pytest

from bert_keras.architectures import family_of
from bert_keras.checkpoints.conversion import layers_taken, student_of
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.models import BertMaskedLM

POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"


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


def test_a_training_state_is_left(checkpoint):
    given = checkpoint("BertMaskedLM", has_pooler=False)
    given = dataclasses.replace(given, state=object())
    assert student_of(given, num_layers=1).state is None
