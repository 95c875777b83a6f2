"""RoBERTa and a modern BERT from a text: records, a few steps and a continued run."""

import json
from pathlib import Path

import numpy as np
import pytest

from bert_keras import BertMaskedLM, BertPretrainer
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.pretrain import pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import named_recipe
from bert_keras.text.packing import pack
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab import train_vocabulary

LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
KINDS = {
    "roberta-tiny": ("bpe", "full-sentences", BertMaskedLM, {"position_offset": 2}),
    "modern-tiny": ("unigram", "sop", BertPretrainer, {"norm_position": "pre"}),
}
CHANGES = ["batch_size=4", "num_steps=3", "steps_per_log=3", "num_warmup_steps=1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS])
def test_related_models_are_pretrained_from_a_text(tmp_path, name):
    model, objective, Model, traits = KINDS[name]
    records, folder = tmp_path / "records", tmp_path / "run/model"
    vocabulary = train_vocabulary([LICENSE], size=420, model=model)
    settings = BuildSettings(objective=objective, max_length=48, max_predictions=0, duplicates=1)
    build([LICENSE], vocabulary=vocabulary, output=records, settings=settings)
    recipe_name, changes = name if name in PRETRAIN else "demo", [*CHANGES, f"size={name}"]
    recipe = named_recipe(PRETRAIN, recipe_name, changes=changes)
    scores = pretrain(recipe, records=records, output=tmp_path / "run").scores
    assert scores["steps"] == 3
    assert (folder / "tokenizer.json").read_bytes() == (records / "tokenizer.json").read_bytes()
    trained = load_model(folder)
    assert type(trained) is Model and trained.tokenizer.vocabulary == vocabulary
    assert trained.metadata.lowercase == (model == "unigram")
    assert all(getattr(trained.config, trait) == value for trait, value in traits.items())
    assert trained.config.num_segments == (1 if name == "roberta-tiny" else 2)
    (ids,) = trained.tokenizer.ids_batch(["the Work of a License"])
    inputs = pack([ids], vocabulary=vocabulary, max_length=48)
    logits = trained({**inputs, "masked_lm_positions": np.array([[1, 2]])})["masked_lm"]
    assert np.isfinite(logits).all() and logits.shape == (1, 2, len(vocabulary))
    again = named_recipe(PRETRAIN, recipe_name, changes=[*changes, "num_steps=6"])
    inputs = PretrainInputs(again, records=records, pretrained=folder)
    assert inputs.metadata.config.to_dict().items() >= traits.items()
    assert not inputs.starting_point.new_parts
    rules = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    rules["normalizer"] = {"type": "NFKC"}
    (folder / "tokenizer.json").write_text(json.dumps(rules), "utf-8")
    with pytest.raises(InputError):
        PretrainInputs(again, records=records, pretrained=folder)
    if name == "roberta-tiny":
        words = named_recipe(PRETRAIN, name, changes=[*CHANGES, "mask_unit=word"])
        with pytest.raises(InputError):
            PretrainInputs(words, records=records)
