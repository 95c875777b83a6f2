"""`convert`: from any format to any format, parts and students of models, new tokens."""

import dataclasses
import unicodedata

import numpy as np
import pytest

from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.families import family_of
from bert_keras.runs.conversion import convert, extend_vocabulary, student_layers, student_of
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.factories import arrays_of, assert_same_tensors, random_checkpoint
from tests.relatives import CHANGES
from tests.tensorflow_or_skip import needs_tensorflow

POSITIONS, SEGMENTS = "encoder/embeddings/position", "encoder/embeddings/segment"


def with_state(checkpoint, *, step: int = 7):
    state = TrainingState(step=step, momentums=checkpoint.tensors, velocities=checkpoint.tensors)
    return dataclasses.replace(checkpoint, state=state)


@needs_tensorflow
def test_the_training_state(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original = with_state(random_checkpoint("BertPretrainer", config={"activation": "relu"}))
    write_checkpoint(original, "a", format="bert-keras")
    for format, is_lost in (("google", False), ("huggingface", True)):
        assert main(["convert", "a", format, "--format", format]) == 0
        report = capsys.readouterr().out
        assert report.startswith(f"a -> {format}: BertPretrainer\nloaded      encoder (")
        assert ("cannot store" in report) == is_lost
    back = open_checkpoint("google")
    assert back.state.step == 7
    assert_same_tensors(back.state.velocities, original.tensors)
    assert main(["convert", "--ignore", "global_step", "a", "b"]) == 0
    assert "unused" in capsys.readouterr().out and open_checkpoint("b").state is None


def test_a_part_of_a_model(tmp_path, capsys):
    original = with_state(random_checkpoint("BertPretrainer"))
    write_checkpoint(original, tmp_path / "ours", format="bert-keras")
    command = ["convert", f"{tmp_path}/ours", f"{tmp_path}/words", "--model-class"]
    assert main([*command, "BertMaskedLM"]) == 0
    report = capsys.readouterr().out
    assert "next_sentence (2)" in report and "the training state is left out" in report
    part = open_checkpoint(tmp_path / "words")
    assert part.metadata.model == "BertMaskedLM"
    absent = {"next_sentence/dense/bias", "next_sentence/dense/kernel"}
    assert {*original.tensors} - {*part.tensors} == absent
    assert part.state is None
    command[2] = f"{tmp_path}/span"
    assert main([*command, "BertQuestionAnswering"]) == 2
    assert "span" in capsys.readouterr().err


def test_the_generator_of_a_replaced_token_model(tmp_path):
    config = {"has_pooler": False, **CHANGES["electra"]}
    original = with_state(random_checkpoint("BertReplacedTokenPretrainer", config=config))
    write_checkpoint(original, tmp_path / "both", format="bert-keras")
    convert(tmp_path / "both", tmp_path / "small", model="BertMaskedLM")
    small = open_checkpoint(tmp_path / "small")
    table, kernel = "encoder/embeddings/token", "encoder/layer_1/attention/query/kernel"
    expected = {table: original.tensors[table], kernel: original.tensors[f"generator/{kernel}"]}
    assert_same_tensors({name: small.tensors[name] for name in expected}, expected)
    assert small.state is None
    convert(tmp_path / "both", tmp_path / "large", model="BertDiscriminator", format="huggingface")
    assert open_checkpoint(tmp_path / "large").metadata.model == "BertDiscriminator"


def test_a_student_of_bert_is_a_distilbert(tmp_path, capsys):
    teacher = with_state(random_checkpoint("BertPretrainer", config={"num_layers": 5}))
    write_checkpoint(teacher, tmp_path / "teacher", format="bert-keras")
    command = ["convert", f"{tmp_path}/teacher", f"{tmp_path}/student", "--layers", "3"]
    assert main([*command, "--format", "huggingface"]) == 0
    assert "the student has layers 0, 2, 4 of 0 to 4" in capsys.readouterr().out
    assert student_layers(6, of=12) == [0, 2, 4, 7, 9, 11] and student_layers(1, of=5) == [0]
    student = open_checkpoint(tmp_path / "student")
    assert student.metadata.model == "BertMaskedLM" and student.vocabulary == teacher.vocabulary
    assert student_of(teacher, num_layers=2).state is None
    assert family_of(student.metadata.config).kind == "distilbert"
    original = arrays_of(teacher.tensors)
    original[POSITIONS] = original[POSITIONS] + original.pop(SEGMENTS)[0]
    for name, array in arrays_of(student.tensors).items():
        source = name.replace("layer_2", "layer_4").replace("layer_1", "layer_2")
        np.testing.assert_array_equal(array, original[source], name)


@pytest.mark.parametrize("kind", ["albert", "roberta"])
def test_students_of_relatives_keep_their_family(kind):
    teacher = random_checkpoint("BertClassifier", config={**CHANGES[kind], "num_layers": 4})
    student = student_of(teacher, num_layers=2)
    assert student.metadata.model == "BertEncoder" and not student.metadata.labels
    config = student.metadata.config
    assert family_of(config) is family_of(teacher.metadata.config) and config.num_layers == 2
    assert student.tensors[SEGMENTS] is teacher.tensors[SEGMENTS]


PAD, *OTHERS = SPECIAL_TOKENS
LETTERS = (*"abcdef", "##a", "##b", "##bc", "##c", "##d", "##f")
VOCABULARY = Vocabulary((PAD, "[unused0]", "[unused1]", *OTHERS, *LETTERS))
IDS = VOCABULARY.ids
TABLES = ("encoder/embeddings/token", "masked_lm/output_bias", "masked_lm/decoder")


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("BertPretrainer", {}),
        ("BertMaskedLM", {"ties_decoder": False, "has_pooler": False}),
        ("BertPretrainer", CHANGES["albert"]),
        ("BertClassifier", {}),
        ("BertReplacedTokenPretrainer", {**CHANGES["electra"], "has_pooler": False}),
    ],
)
def test_new_rows_are_the_means_of_the_former_subtokens(model, config):
    original = with_state(random_checkpoint(model, config=config, vocabulary=VOCABULARY))
    new = extend_vocabulary(original, ["abc", "cab", "##bd", "x"])
    assert new.vocabulary.tokens == (PAD, "abc", "cab", *OTHERS, *LETTERS, "##bd", "x")
    assert new.metadata.config.vocab_size == len(new.vocabulary) == len(VOCABULARY) + 2
    assert new.state is None
    former = {1: ("a", "##bc"), 2: ("c", "##a", "##b"), -2: ("##b", "##d"), -1: ("[UNK]",)}
    kept = [n for n in range(len(VOCABULARY)) if n not in former]
    before = arrays_of(original.tensors)
    assert {*new.tensors} == {*before}
    for name, after in arrays_of(new.tensors).items():
        if name.removeprefix("generator/") not in TABLES:
            np.testing.assert_array_equal(after, before[name], name)
            continue
        np.testing.assert_array_equal(after[kept], before[name][kept], name)
        for row, tokens in former.items():
            mean = before[name][[IDS[token] for token in tokens]].mean(axis=0)
            np.testing.assert_array_equal(after[row], mean, name)


def test_texts_without_new_tokens_keep_their_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original = random_checkpoint("BertMaskedLM", vocabulary=VOCABULARY)
    write_checkpoint(original, "old", format="bert-keras")
    (tmp_path / "words.txt").write_text("cab\nfed\na\n")
    assert main(["convert", "old", "new", "--extend-vocabulary", "words.txt"]) == 0
    old, new = original.tokenizer, open_checkpoint("new").tokenizer
    assert old.ids_batch(["ab ba"]) == new.ids_batch(["ab ba"])
    assert new.ids_batch(["cab fed a"]) == [[1, 2, IDS["a"]]]


def test_new_tokens_of_hangul_are_decomposed_where_texts_are():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, *unicodedata.normalize("NFD", "서울")))
    new = extend_vocabulary(random_checkpoint("BertEncoder", vocabulary=vocabulary), ["서울"])
    assert new.tokenizer.encode("서울").ids == [len(vocabulary)]


def test_impossible_new_tokens_are_refused(vocabulary_of):
    original = random_checkpoint("BertEncoder", vocabulary=VOCABULARY)
    not_in_texts = (["new york"], [""], ["New"], ["a-b"], ["##"])  # after tokenization
    for tokens in (*not_in_texts, ["xy", "xy"]):
        with pytest.raises(InputError):
            extend_vocabulary(original, tokens)
    bpe = random_checkpoint("BertEncoder", vocabulary=vocabulary_of("roberta"))
    with pytest.raises(InputError):
        extend_vocabulary(bpe, ["cab"])
