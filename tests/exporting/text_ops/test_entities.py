import random
from itertools import chain

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.downstream.ner.tags import entities as tagged_entities
from bert_keras.downstream.ner.words import WordTokens, sentence_rows
from bert_keras.exporting.text_ops.entities import bio_tag, entities, word_rows
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abc.,", "##a", "##b", "##c"))
LABELS = ("O", "B-PER", "I-PER", "I-LOC", "B-LOC", "PER", "MISC", "B-a-b", "I-a-b")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    VOCABULARY.save(folder / "vocab.txt")
    return TextToInputs(folder / "vocab.txt", lowercase=True, max_length=9)


@pytest.mark.parametrize(
    "limit", [1, 7, *(pytest.param(limit, marks=pytest.mark.slow) for limit in (2, 3, 10))]
)
def test_rows_equal_those_of_training(reader, limit):
    rng = random.Random(limit)
    texts = ["", "a"]
    texts += [
        " ".join("".join(rng.choices("abc", k=rng.randrange(1, 6))) for _ in range(length))
        for length in range(40)
    ]
    texts += ["a " * limit, "a " * (limit + 1), "", ""]
    tokens = WordPieceTokenizer(VOCABULARY).encode_batch(texts)
    flat = [token for each in tokens for token in each.tokens]
    first_tokens = [index for index, token in enumerate(flat) if not token.startswith("##")]
    tokens = WordTokens(
        np.array([token_id for each in tokens for token_id in each.ids]),
        np.array(first_tokens),
        np.cumsum([0, *(len(each.ids) for each in tokens)]),
        np.cumsum([0, *(len(text.split()) for text in texts)]),
    )
    expected = sentence_rows(tokens, limit=limit)
    graph = word_rows(reader.word_tokens(tf.constant(texts)), limit=limit)
    used, rows = np.unique(graph.rows, return_inverse=True)
    assert rows.tolist() == expected.word_rows.tolist()
    assert graph.positions.numpy().tolist() == expected.word_starts.tolist()
    (starts,), (lengths,) = graph.texts.starts, graph.texts.lengths
    assert starts.numpy()[used].tolist() == expected.starts.tolist()
    assert lengths.numpy()[used].tolist() == expected.lengths.tolist()


def entities_in_graph(reader, texts, label_ids, probabilities, labels=LABELS):
    outputs = entities(
        tf.constant(label_ids, tf.int32),
        tf.constant(probabilities, tf.float32),
        tokens=reader.word_tokens(tf.constant(texts)),
        labels=labels,
    )
    return {name: each.numpy() for name, each in outputs.items()}


def test_entities_equal_those_of_the_scorer(reader):
    rng = random.Random(1)
    texts = ["".join(rng.choices(["aa\u0301 ", "b, ", "ca"], k=rng.randrange(9)))
             for _ in range(200)]  # fmt: skip
    tokens = WordPieceTokenizer(VOCABULARY).encode_batch(texts)
    words = [
        [index for index, token in enumerate(each.tokens) if not token.startswith("##")]
        for each in tokens
    ]
    label_ids = [[rng.choice(range(len(LABELS))) for _ in each] for each in words]
    scores = [[rng.random() for _ in each] for each in words]
    outputs = entities_in_graph(reader, texts, [*chain(*label_ids)], [*chain(*scores)])
    assert {name: each.dtype for name, each in outputs.items()} == {
        "entities": object, "labels": object,
        "starts": np.int32, "ends": np.int32, "scores": np.float32,
    }  # fmt: skip
    max_entities = 0
    for row, text in enumerate(texts):
        tags = [bio_tag(LABELS[label_id]) for label_id in label_ids[row]]
        expected = list(tagged_entities(tags))
        max_entities = max(max_entities, len(expected))
        for column, (first, after, kind) in enumerate(expected):
            start, end = outputs["starts"][row, column], outputs["ends"][row, column]
            last = [*words[row], len(tokens[row].ids)][after] - 1
            assert start == tokens[row].offsets[words[row][first]][0]
            assert end - tokens[row].offsets[last][1] in (0, 1)  # a combining mark
            assert end == len(text) or text[end] != "\u0301"
            assert outputs["entities"][row, column] == text[start:end].encode()
            assert outputs["labels"][row, column] == kind.encode()
            np.testing.assert_allclose(
                outputs["scores"][row, column], np.mean(scores[row][first:after]), rtol=1e-5
            )
        padding = {name: each[row, len(expected) :].tolist() for name, each in outputs.items()}
        assert not any(map(any, (padding["entities"], padding["labels"], padding["scores"])))
        assert set(padding["starts"]) | set(padding["ends"]) <= {-1}
    assert outputs["labels"].shape == (200, max_entities)


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
    outputs = entities_in_graph(reader, ["a a b , c"], label_ids, [0.5] * 5, labels)
    pairs = zip(outputs["entities"][0], outputs["labels"][0], strict=True)
    assert [(text.decode(), kind.decode()) for text, kind in pairs] == expected


def test_entities_of_two_texts_are_separate(reader):
    outputs = entities_in_graph(reader, ["a b", "", "a"], [2, 2, 2], [0.25, 0.75, 1.0])
    assert outputs["entities"].tolist() == [[b"a b"], [b""], [b"a"]]
    assert outputs["starts"].tolist() == [[0], [-1], [0]]
    assert outputs["scores"].tolist() == [[0.5], [0.0], [1.0]]
