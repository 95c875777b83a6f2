"""What an error message of a Korean task tells the user to do succeeds."""

import json

import pytest

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.downstream.korean.relations import KLUE_RE_TASK
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertEncoder
from bert_keras.text.markers import MARKERS
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tests.downstream.korean.conftest import KLUE_RE, UNUSED, VOCABULARY

CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=256
)
SETTINGS = ["--set", "num_epochs=1", "max_length=60"]


def finetuned(tmp_path, start, data):
    run = ["--output", str(tmp_path / "run"), *SETTINGS]
    return main(["finetune", "klue-re", "--data", str(data), "--from", str(start), *run])


def test_markers_are_added_to_a_vocabulary_without_unused_tokens(tmp_path, korean_folder, capsys):
    vocabulary = Vocabulary(
        tuple(f"x{each}" if each in UNUSED else each for each in VOCABULARY.tokens)
    )
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=False)
    old = BertEncoder(CONFIG).save_pretrained(tmp_path / "old", tokenizer=tokenizer)
    assert finetuned(tmp_path, old, korean_folder) == 2
    message = capsys.readouterr().err
    assert "write the markers to a file, one on each line, and add them" in message
    (tmp_path / "markers.txt").write_text("\n".join(MARKERS))
    file, new = str(tmp_path / "markers.txt"), str(tmp_path / "new")
    assert main(["convert", str(old), new, "--extend-vocabulary", file]) == 0
    assert finetuned(tmp_path, new, korean_folder) == 0


def test_a_classifier_without_markers_is_fine_tuned(tmp_path, korean_folder, capsys):
    model, labels = BertClassifier(CONFIG, num_labels=30), KLUE_RE_TASK.labels
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    model.save_pretrained(tmp_path / "theirs", tokenizer=tokenizer, labels=labels)
    evaluate = ["evaluate", "klue-re", "--data", str(korean_folder), "--model"]
    assert main([*evaluate, str(tmp_path / "theirs")]) == 2
    assert "use a model that bert-keras finetune klue-re wrote" in capsys.readouterr().err
    assert finetuned(tmp_path, tmp_path / "theirs", korean_folder) == 0
    assert main([*evaluate, str(tmp_path / "run" / "model")]) == 0


def test_an_entity_with_wrong_indices_is_corrected(tmp_path):
    file, entity = tmp_path / "a.json", KLUE_RE[0]["subject_entity"]
    wrong = {**KLUE_RE[0], "subject_entity": {**entity, "word": "나리"}}
    file.write_text(json.dumps([wrong]))
    with pytest.raises(InputError, match="correct the indices or the word"):
        KLUE_RE_TASK.read(file)
    file.write_text(json.dumps([KLUE_RE[0]]))
    assert len(KLUE_RE_TASK.read(file)) == 1
