import random
from itertools import chain

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.text_ops.entities import bio_tag, entities, word_rows
from bert_keras.export.text_ops.text_to_inputs import TextToInputs
from bert_keras.tasks.ner import scoring
from bert_keras.tasks.ner.windows import WordPieces, rows_around
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, *"abc.,", "##a", "##b", "##c"))
LABELS = ("O", "B-PER", "I-PER", "I-LOC", "B-LOC", "PER", "MISC", "B-a-b", "I-a-b")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    VOCABULARY.save(folder / "vocab.txt")
    return TextToInputs(folder / "vocab.txt", lowercase=True, max_length=9)


@pytest.mark.parametrize(
    "limit", [1, 7, *(pytest.param(limit, marks=pytest.mark.slow) for limit in (2, 3, 10))]
)
def test_rows_are_those_of_training(reader, limit):
    pick = random.Random(limit)
    texts = ["", "a"]
    texts += [
        " ".join("".join(pick.choices("abc", k=pick.randrange(1, 6))) for _ in range(length))
        for length in range(40)
    ]
    texts += ["a " * limit, "a " * (limit + 1), "", ""]
    tokens = WordPieceTokenizer(VOCABULARY).encode_batch(texts)
    flat = [piece for each in tokens for piece in each.pieces]
    firsts = [place for place, piece in enumerate(flat) if not piece.startswith("##")]
    pieces = WordPieces(
        np.array([number for each in tokens for number in each.ids]),
        np.array(firsts),
        np.cumsum([0, *(len(each.ids) for each in tokens)]),
        np.cumsum([0, *(len(text.split()) for text in texts)]),
    )
    expected = rows_around(pieces, limit=limit)
    found = word_rows(reader.placed_word_pieces(tf.constant(texts)), limit=limit)
    kept, rows = np.unique(found.rows, return_inverse=True)
    assert rows.tolist() == expected.word_rows.tolist()
    assert found.places.numpy().tolist() == expected.word_places.tolist()
    (starts,), (lengths,) = found.texts.starts, found.texts.lengths
    assert starts.numpy()[kept].tolist() == expected.starts.tolist()
    assert lengths.numpy()[kept].tolist() == expected.lengths.tolist()


def found_entities(reader, texts, label_ids, probabilities, labels=LABELS):
    found = entities(
        tf.constant(label_ids, tf.int32),
        tf.constant(probabilities, tf.float32),
        pieces=reader.placed_word_pieces(tf.constant(texts)),
        labels=labels,
    )
    return {name: each.numpy() for name, each in found.items()}


def test_entities_are_those_of_the_scorer(reader):
    pick = random.Random(1)
    texts = ["".join(pick.choices(["aa\u0301 ", "b, ", "ca"], k=pick.randrange(9)))
             for _ in range(200)]  # fmt: skip
    tokens = WordPieceTokenizer(VOCABULARY).encode_batch(texts)
    words = [
        [place for place, piece in enumerate(each.pieces) if not piece.startswith("##")]
        for each in tokens
    ]
    label_ids = [[pick.choice(range(len(LABELS))) for _ in each] for each in words]
    scores = [[pick.random() for _ in each] for each in words]
    found = found_entities(reader, texts, [*chain(*label_ids)], [*chain(*scores)])
    assert {name: each.dtype for name, each in found.items()} == {
        "entities": object, "labels": object,
        "starts": np.int32, "ends": np.int32, "scores": np.float32,
    }  # fmt: skip
    num_found = 0
    for row, text in enumerate(texts):
        tags = [bio_tag(LABELS[number]) for number in label_ids[row]]
        expected = list(scoring.entities(tags))
        num_found = max(num_found, len(expected))
        for column, (first, after, kind) in enumerate(expected):
            start, end = found["starts"][row, column], found["ends"][row, column]
            last = [*words[row], len(tokens[row].ids)][after] - 1
            assert start == tokens[row].offsets[words[row][first]][0]
            assert end - tokens[row].offsets[last][1] in (0, 1)  # a mark
            assert end == len(text) or text[end] != "\u0301"
            assert found["entities"][row, column] == text[start:end].encode()
            assert found["labels"][row, column] == kind.encode()
            np.testing.assert_allclose(
                found["scores"][row, column], np.mean(scores[row][first:after]), rtol=1e-5
            )
        beyond = {name: each[row, len(expected) :].tolist() for name, each in found.items()}
        assert not any(map(any, (beyond["entities"], beyond["labels"], beyond["scores"])))
        assert set(beyond["starts"]) | set(beyond["ends"]) <= {-1}
    assert found["labels"].shape == (200, num_found)


@pytest.mark.parametrize(
    ("labels", "tags", "expected"),
    [
        (("O", "PER", "LOC"), "PER PER LOC O LOC", [("a a", "PER"), ("b", "LOC"), ("c", "LOC")]),
        (("O", "I-X", "B-X"), "I-X B-X I-X O I-X", [("a", "X"), ("a b", "X"), ("c", "X")]),
        (("O", "I-X", "I-Y"), "I-X I-Y I-Y O I-X", [("a", "X"), ("a b", "Y"), ("c", "X")]),
        (("O", "X"), "O O O O O", []),
    ],
)
def test_labels_with_and_without_prefixes(reader, labels, tags, expected):
    label_ids = [labels.index(tag) for tag in tags.split()]
    found = found_entities(reader, ["a a b , c"], label_ids, [0.5] * 5, labels)
    pairs = zip(found["entities"][0], found["labels"][0], strict=True)
    assert [(text.decode(), kind.decode()) for text, kind in pairs] == expected


def test_entities_of_two_texts_are_apart(reader):
    found = found_entities(reader, ["a b", "", "a"], [2, 2, 2], [0.25, 0.75, 1.0])
    assert found["entities"].tolist() == [[b"a b"], [b""], [b"a"]]
    assert found["starts"].tolist() == [[0], [-1], [0]]
    assert found["scores"].tolist() == [[0.5], [0.0], [1.0]]
