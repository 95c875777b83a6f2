"""SWAG: rows, their four sequences, predictions and errors."""

import numpy as np
import pytest

from bert_keras.downstream.swag import SWAG_TASK, SwagExample, SwagTask
from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = "he she opens the door and then leaves a sings sleeps dog window ,"
TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *WORDS.split())))
HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
ROWS = [
    '0,v1,7,x,He opens the door.,She,gold,sings,"leaves, and then sleeps",opens,sleeps,1',
    "1,v2,8,x,The dog sleeps.,,gold,and,door,then,window,3",
]


def write(path, header=f"{HEADER},label", rows=ROWS):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_official_rows_are_read(tmp_path):
    first, second = SWAG_TASK.read(write(tmp_path / "train.csv"))
    endings = ("sings", "leaves, and then sleeps", "opens", "sleeps")
    assert first == SwagExample("He opens the door.", "She", endings, 1)
    assert (second.start, second.label) == ("", 3)
    unlabelled = write(tmp_path / "test.csv", HEADER, [row.rpartition(",")[0] for row in ROWS])
    assert [each.label for each in SWAG_TASK.read(unlabelled, split="test")] == [None, None]


@pytest.mark.parametrize(
    ("max_length", "lengths", "text"),
    [
        # "." becomes [UNK].
        (128, [14, 8], "[CLS] he opens the door [UNK] [SEP] she leaves , and then sleeps [SEP]"),
        (9, [9, 8], "[CLS] he opens the [SEP] she leaves , [SEP]"),
    ],
)
def test_a_batch_has_four_sequences_and_one_label_per_example(tmp_path, max_length, lengths, text):
    task = SwagTask(max_length=max_length)
    encoded = task.encode(task.read(write(tmp_path / "train.csv")), TOKENIZER)
    assert encoded.lengths.tolist() == lengths
    inputs, labels = encoded.batch(np.array([1, 0]))
    assert labels.tolist() == [3, 1] and labels.dtype == np.int32
    assert inputs["input_ids"].shape == (2, 4, lengths[0])
    assert inputs["input_ids"].dtype == np.int32
    assert TOKENIZER.decode(inputs["input_ids"][1, 1]) == text
    num_first = text.split().index("[SEP]") + 1
    segments = [0] * num_first + [1] * (lengths[0] - num_first)
    assert inputs["segment_ids"][1, 1].tolist() == segments
    assert inputs["input_mask"].sum(axis=-1)[0].tolist() == [8, 8, 8, 8]


def test_scores_and_prediction_files(tmp_path):
    swag_examples = SWAG_TASK.read(write(tmp_path / "val.csv"), split="dev")
    outputs = [np.array([0.0, np.log(3), 0, 0], np.float32), np.array([2.0, 0, 0, 0], np.float32)]
    predictions = SWAG_TASK.predictions(swag_examples, None, outputs)
    assert [each.choice for each in predictions] == [1, 0]
    assert predictions[0].probabilities == pytest.approx((1 / 6, 1 / 2, 1 / 6, 1 / 6))
    assert SWAG_TASK.score(swag_examples, predictions) == {"accuracy": 0.5}
    path = tmp_path / "predictions.csv"
    SWAG_TASK.write_predictions(path, swag_examples, predictions)
    assert path.read_text() == ",pred\n0,1\n1,0\n"


def test_errors_name_the_file_and_line(tmp_path):
    for row in (ROWS[0][:-1] + "4", "0,v1,7,x,He,She,gold,a, ,c,d,1"):
        with pytest.raises(InputError, match=r"val.csv, line 2 "):
            SWAG_TASK.read(write(tmp_path / "val.csv", rows=[row]), split="dev")
