"""Runs in half precision: the weights are float32, and the losses decrease as in float32."""

import json

import keras
import pytest

from bert_keras import BertPretrainer
from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.cli import main
from bert_keras.families import preset
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tests.runs.test_runs import records  # noqa: F401

SETTINGS = ["batch_size=8", "num_steps=30", "num_warmup_steps=16", "learning_rate=1e-2", "seed=2"]


@pytest.fixture
def start(records, tmp_path):  # noqa: F811
    """A very small model, because float16 without hardware support is a hundred times slower."""
    keras.utils.set_random_seed(1)
    vocabulary = Vocabulary.from_file(records / "vocab.txt")
    sizes = {"vocab_size": len(vocabulary), "hidden_size": 16, "num_layers": 1}
    config = preset("tiny", initializer_stddev=0.2, **sizes)
    tokenizer = WordPieceTokenizer(vocabulary)
    BertPretrainer(config).save_pretrained(tmp_path / "start", tokenizer=tokenizer)
    return tmp_path / "start"


@pytest.mark.slow
def test_all_precisions_end_with_similar_losses(records, start, tmp_path):  # noqa: F811
    scores, before = {}, keras.config.dtype_policy()
    for precision in ("float32", "bfloat16", "float16"):
        output = tmp_path / precision
        command = f"pretrain demo --records {records} --from {start} --output {output}"
        more = ["--precision", precision, "--set", *SETTINGS, "gradient_checkpointing=true"]
        try:
            assert main([*command.split(), *more]) == 0
        finally:
            keras.config.set_dtype_policy(before)
        scores[precision] = json.loads((output / "scores.json").read_text())
        tensors = open_checkpoint(output / "model").tensors.values()
        assert {tensor.read().dtype.name for tensor in tensors} == {"float32"}
    losses = [each["held_out_masked_lm_loss"] for each in scores.values()]
    assert losses[0] < 1.2 * scores["float32"]["unigram_masked_lm_loss"]  # from log(200) or more
    assert losses == pytest.approx(3 * losses[:1], abs=0.01)
    assert len(set(losses)) == 3  # each run has its own precision
