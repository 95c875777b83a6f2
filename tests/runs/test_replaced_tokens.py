"""Pretraining by replaced-token detection: the folder of a run and its parts."""

import json
import re

import numpy as np
import pytest

from bert_keras import BertDiscriminator, BertMaskedLM, BertReplacedTokenPretrainer
from bert_keras.cli import main
from bert_keras.models.loading import load_model
from bert_keras.runs.pretrain import build_pretrainer
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import named_recipe
from tests.factories import tiny_vocabulary, write_records

CHANGES = [
    *("size=L-1_H-16_A-2", "dropout_rate=0.1", "batch_size=8"),
    *("num_steps=4", "num_warmup_steps=1", "steps_per_log=2", "logs_per_checkpoint=1"),
    *("initial_weights=normal", "generator_size=0.5"),
]


def recipe(*changes):
    return named_recipe(PRETRAIN, "electra-tiny", changes=[*CHANGES, *changes])


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    settings = {"max_length": 24, "max_predictions": 0, "held_out_rate": 0.3, "shards": 1}
    folder = tmp_path_factory.mktemp("records")
    return write_records(folder, objective="full-sentences", **settings)


@pytest.fixture(scope="module")
def run(records, tmp_path_factory):
    output = tmp_path_factory.mktemp("replaced") / "run"
    command = f"pretrain electra-tiny --records {records} --output {output} --set"
    assert main([*command.split(), *CHANGES]) == 0
    return output


@pytest.mark.slow
def test_a_run_writes_a_discriminator_that_fine_tunes(run, tmp_path, capsys):
    scores = json.loads((run / "scores.json").read_text())
    assert 0 < scores["held_out_masked_lm_loss"] < 2 * np.log(len(tiny_vocabulary()))
    assert 0 < scores["held_out_replaced_token_loss"] < 3
    assert 0 <= scores["held_out_replaced_token_accuracy"] <= 1
    assert 0 < scores["held_out_replaced_token_rate"] < 0.25
    folder, discriminator = run / "model", tmp_path / "discriminator"
    model = load_model(folder)
    assert type(model) is BertReplacedTokenPretrainer and model.generator_size == 0.5
    assert model.generator.config.num_heads == 1
    for path, kind in ((discriminator, BertDiscriminator), (tmp_path / "lm", BertMaskedLM)):
        assert main(["convert", str(folder), str(path), "--model-class", kind.__name__]) == 0
        assert type(load_model(path)) is kind
    actual, expected = (m.encoder.blocks[0].weights for m in (load_model(discriminator), model))
    for weight, value in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(weight, value)
    table = tmp_path / "rows.tsv"
    table.write_text("text\tlabel\ngood film\tno\nbad film\tyes\n")
    tune = f"finetune classification --train {table} --dev {table} --from {folder} --output"
    settings = "--recipe demo --set num_epochs=1 max_length=8 batch_size=2"
    assert main(f"{tune} {tmp_path / 'tuned'} {settings}".split()) == 0
    assert re.search(r"accuracy +\d\.\d{4} ± 0\.\d{4}\n", capsys.readouterr().out)


def test_a_generator_of_the_starting_point_keeps_its_size(run, records):
    changed = recipe("generator_size=1.0")
    for folder, size in ((run / "model", 0.5), (None, 1.0)):
        inputs = PretrainInputs(changed, records=records, pretrained=folder)
        assert inputs.metadata.task == {"generator_size": size}


def test_local_attention_is_for_both_encoders(records):
    local = recipe("initial_weights=local-attention", "generator_size=1")
    model = build_pretrainer(PretrainInputs(local, records=records))
    first, second = (encoder.blocks[0].attention for encoder in model.encoders)
    np.testing.assert_array_equal(first.query_dense.kernel, second.query_dense.kernel)
    assert np.any(first.value_dense.kernel != second.value_dense.kernel)
    token_table = np.asarray(model.encoder.embeddings.token_table)
    assert not token_table[:, :8].any() and token_table[:, 8:].any()
