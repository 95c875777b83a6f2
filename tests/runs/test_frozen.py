"""A run over a frozen encoder: cut off and continued, it ends as an unbroken one."""

import dataclasses
import shutil

import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertEncoder, load_model
from bert_keras.runs.finetune import finetune
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.tasks.catalog import named_task
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_PIECES, "paris", "is", "big"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
)
TASK = dataclasses.replace(named_task("ner-features"), max_length=16, layers="last", lstm_units=4)
RECIPE = FinetuneRecipe(batch_size=2, num_epochs=2, learning_rate=1e-2, logs_per_epoch=1)


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_its_encoder(tmp_path):
    start = BertEncoder(CONFIG).save_pretrained(
        tmp_path / "start", tokenizer=WordPieceTokenizer(VOCABULARY)
    )
    place = tmp_path / "words.conll"
    place.write_text("Paris B-LOC\nis O\nbig O\n\nbig O\nParis B-LOC\n\n" * 2)

    def run(output, task=TASK):
        return finetune(
            task, RECIPE, pretrained=start, files={"train": str(place), "dev": str(place)},
            output=tmp_path / output,
        )  # fmt: skip

    whole = run("whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")  # as before the model was saved
    shutil.rmtree(tmp_path / "broken" / "model")
    (tmp_path / "broken" / "scores.json").unlink()
    assert run("broken") == whole
    with pytest.raises(InputError, match="take layers=last or layers=weighted-sum-all"):
        run("refused", dataclasses.replace(TASK, layers="concat-last-four"))
    assert not (tmp_path / "refused").exists()
    assert len([*(tmp_path / "broken" / "features" / "train").iterdir()]) == 1
    models = [load_model(tmp_path / name / "model") for name in ("whole", "broken")]
    for ours, theirs in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(ours, theirs)
