"""RoBERTa and ALBERT from a text on: vocabulary, records, a few steps, a model that goes on."""

import json
from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.models import BertMaskedLM, BertPretrainer, load_model
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PRETRAIN, named_recipe
from bert_keras.text.packing import pack
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab.train_vocab import train_vocabulary

LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
KINDS = {
    "roberta-tiny": ("bpe", "full-sentences", BertMaskedLM, {"position_offset": 2}),
    "albert-tiny": ("unigram", "sop", BertPretrainer, {"embedding_size": 64}),
}
CHANGES = ["batch_size=4", "num_steps=3", "steps_per_log=3", "num_warmup_steps=1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["roberta-tiny", "albert-tiny"])
def test_from_a_text_to_a_model(tmp_path, name):
    model, objective, Model, traits = KINDS[name]
    records, folder = tmp_path / "records", tmp_path / "run/model"
    vocabulary = train_vocabulary([LICENSE], size=420, model=model)
    settings = BuildSettings(objective=objective, max_length=48, max_predictions=0, duplicates=1)
    build([LICENSE], vocabulary=vocabulary, output=records, settings=settings)
    recipe = named_recipe(PRETRAIN, name, changes=CHANGES)
    scores = pretrain(recipe, records=records, output=tmp_path / "run")
    assert scores["steps"] == 3
    assert (folder / "tokenizer.json").read_bytes() == (records / "tokenizer.json").read_bytes()
    trained = load_model(folder)
    assert type(trained) is Model and trained.tokenizer.vocabulary == vocabulary
    assert trained.card.lowercase == (name == "albert-tiny")
    assert all(getattr(trained.config, trait) == value for trait, value in traits.items())
    assert trained.config.num_segments == (1 if name == "roberta-tiny" else 2)
    (ids,) = trained.tokenizer.ids_batch(["the Work of a License"])
    inputs = pack([ids], vocabulary=vocabulary, max_length=48)
    logits = trained({**inputs, "masked_lm_positions": np.array([[1, 2]])})["masked_lm"]
    assert np.isfinite(logits).all() and logits.shape == (1, 2, len(vocabulary))
    again = named_recipe(PRETRAIN, name, changes=[*CHANGES, "num_steps=6"])
    begin = PretrainInputs(again, records=records, start=folder).begin
    assert begin.config.to_dict().items() >= traits.items() and not begin.new
    rules = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    rules["normalizer"] = {"type": "NFKC"}
    (folder / "tokenizer.json").write_text(json.dumps(rules), "utf-8")
    with pytest.raises(InputError, match=r"the same pieces and another tokenizer.json, which"):
        PretrainInputs(again, records=records, start=folder)
    if name == "roberta-tiny":
        words = named_recipe(PRETRAIN, name, changes=[*CHANGES, "mask_unit=word"])
        with pytest.raises(InputError, match="do not tell which word a line begins with"):
            PretrainInputs(words, records=records, start=None)


def test_a_folder_without_a_vocabulary(tmp_path):
    with pytest.raises(InputError, match=r"holds no vocab.txt and no tokenizer.json; put the"):
        PretrainInputs(PRETRAIN["roberta-tiny"], records=tmp_path, start=None)
