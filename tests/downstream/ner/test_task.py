"""Named entity recognition by fine-tuning: inputs, loss, predictions, scores and files."""

import dataclasses

import numpy as np
import pytest

from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.ner.task import NER_TASK
from bert_keras.downstream.predictor import Predictor
from bert_keras.errors import InputError
from bert_keras.kinds.words import Sentence
from bert_keras.models.task_models import BertTokenClassifier
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.factories import tiny_config

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdef", "##a"))
TOKENIZER = WordPieceTokenizer(VOCABULARY)
LABELS = ("O", "B-x", "I-x")
TASK = dataclasses.replace(NER_TASK, max_length=8, labels=LABELS)
SENTENCES = [
    Sentence(("aa", "b", "c"), ("B-x", "I-x", "O"), 1, 2),
    Sentence(("d", "e"), ("O", "B-x"), 2, 7),
]


@pytest.mark.parametrize(
    ("context", "texts", "targets", "words"),
    [
        ("sentence", ["[CLS] a ##a b c [SEP]", "[CLS] d e [SEP] [PAD] [PAD]"],
         [[0, 1, 0, 2, 0, 0], [0, 0, 1, 0, 0, 0]], [[0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 0, 0]]),
        ("document", ["[CLS] a ##a b c d e [SEP]"] * 2,
         [[0, 1, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0]],
         [[0, 1, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1, 0]]),
    ],
)  # fmt: skip
def test_targets_are_at_the_first_token_of_each_word(context, texts, targets, words):
    """The context from the document has no targets."""
    sentences = [dataclasses.replace(each, document=1) for each in SENTENCES]
    task = dataclasses.replace(TASK, context=context)
    inputs, label_ids, weights = task.encode(sentences, TOKENIZER).batch(np.array([0, 1]))
    tokens = [[VOCABULARY.tokens[number] for number in row] for row in inputs["input_ids"]]
    assert tokens == [text.split() for text in texts]
    assert label_ids.tolist() == targets and weights.tolist() == words
    assert label_ids.dtype == np.int32 and weights.dtype == np.float32


@pytest.mark.parametrize("context", ["sentence", "document"])
def test_each_word_is_predicted_at_its_first_token(context):
    """Long sentences have several rows; the outputs depend on the token at each position."""
    rng = np.random.default_rng(1)
    words = [tuple(rng.choice(["a", "b", "aa"], size)) for size in (1, 30, 2, 5, 40)]
    sentences = [Sentence(each, None, number // 2, 1) for number, each in enumerate(words)]
    task = dataclasses.replace(TASK, context=context)
    encoded = task.encode(sentences, TOKENIZER)
    assert len(encoded) > len(sentences) and encoded.lengths.max() == 8
    inputs, _, weights = encoded.batch(np.arange(len(encoded)))
    assert weights.sum() == 0
    a, b = VOCABULARY.ids["a"], VOCABULARY.ids["b"]
    outputs = np.stack([inputs["input_ids"] == number for number in (a, b)], axis=-1)
    outputs = [*np.concatenate([np.zeros_like(outputs[..., :1]), outputs], axis=-1).astype(float)]
    expected = [tuple("B-x" if w[0] == "a" else "I-x" for w in s.words) for s in sentences]
    assert task.predictions(sentences, encoded, outputs) == expected


def test_labels_are_the_tags_of_the_training_sentences():
    assert NER_TASK.with_labels_of(SENTENCES).labels == LABELS
    assert TASK.with_labels_of(SENTENCES[1:]) is TASK


def test_unknown_tags_are_reported_and_count_as_missed(capsys):
    sentences = [Sentence(("a", "b", "c"), ("B-x", "B-y", "I-y"), 0, 1)]
    encoded = TASK.encode(sentences, TOKENIZER)
    assert "B-y, I-y" in capsys.readouterr().err
    assert encoded.batch(np.array([0]))[2].tolist() == [[0, 1, 0, 0, 0]]
    scores = TASK.score(sentences, [("B-x", "O", "O")])
    assert (scores["precision"], scores["recall"], scores["y recall"]) == (1, 0.5, 0)
    assert scores["accuracy"] == pytest.approx(1 / 3)


def test_files_may_have_documents_and_no_tags(tmp_path):
    path = tmp_path / "words"
    path.write_text("-DOCSTART-\n\na\n\u00a0\nb\n")
    (sentence,) = dataclasses.replace(TASK, context="document").read(path, split="test")
    assert (sentence.words, sentence.tags) == (("a", "\u00a0", "b"), None)
    assert sentence.document == 1
    with pytest.raises(InputError):
        TASK.check_labels([sentence])


def test_predictions_are_written_as_conlleval_reads_them(tmp_path):
    unlabelled, tags = dataclasses.replace(SENTENCES[1], tags=None), [("B-x", "O", "O")]
    TASK.write_predictions(tmp_path / "p", SENTENCES[:1], tags)
    assert (tmp_path / "p").read_text() == "aa B-x B-x\nb I-x O\nc O O\n\n"
    TASK.write_predictions(tmp_path / "p", [unlabelled], [("I-x", "B-x")])
    assert (tmp_path / "p").read_text() == "d I-x\ne B-x\n\n"


def test_data_without_tokens_has_no_predictions():
    """A sentence of white space alone has no word in klue-ner, and the whole data may have none."""
    sentences = [Sentence((" ", " "), ("O", "O"), 0, 1)]
    task = named_task("klue-ner")
    encoded = task.encode(sentences, TOKENIZER)
    outputs, loss = Predictor(BertTokenClassifier(tiny_config(), num_labels=13))(encoded)
    assert (outputs, loss) == ([], None)
    assert task.predictions(sentences, encoded, outputs) == [("O", "O")]
