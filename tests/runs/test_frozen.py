"""A run with a frozen encoder: an interrupted run ends like an uninterrupted one."""

import dataclasses
import shutil

import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError
from bert_keras.models import BertEncoder, load_model
from bert_keras.runs.finetune import finetune
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "paris", "is", "big"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
)
TASK = dataclasses.replace(named_task("ner-features"), max_length=16, layers="last", lstm_units=4)
RECIPE = FinetuneRecipe(batch_size=2, num_epochs=2, learning_rate=1e-2, logs_per_epoch=1)


@pytest.mark.slow
def test_a_continued_run_has_the_weights_of_an_uninterrupted_run(tmp_path):
    start = BertEncoder(CONFIG).save_pretrained(
        tmp_path / "start", tokenizer=WordPieceTokenizer(VOCABULARY)
    )
    path = tmp_path / "words.conll"
    path.write_text("Paris B-LOC\nis O\nbig O\n\nbig O\nParis B-LOC\n\n" * 2)

    def run(output, task=TASK):
        return finetune(
            task, RECIPE, pretrained=start, data={"train": str(path), "dev": str(path)},
            output=tmp_path / output,
        ).scores  # fmt: skip

    expected = run("complete")
    shutil.copytree(tmp_path / "complete", tmp_path / "interrupted")  # as before the model is saved
    shutil.rmtree(tmp_path / "interrupted" / "model")
    (tmp_path / "interrupted" / "scores.json").unlink()
    assert run("interrupted") == expected
    with pytest.raises(InputError, match="use layers=last or layers=weighted-sum-all"):
        run("refused", dataclasses.replace(TASK, layers="concat-last-four"))
    assert not (tmp_path / "refused").exists()
    assert len([*(tmp_path / "interrupted" / "features" / "train").iterdir()]) == 1
    models = [load_model(tmp_path / name / "model") for name in ("complete", "interrupted")]
    for weight, other_weight in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(weight, other_weight)
