"""Every head's numbers against those that the reference computed once: tests/golden, without it."""

import json
import runpy
from pathlib import Path

import numpy as np
import our_side
import pytest
from safetensors import safe_open

from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.huggingface.config import CLASSES
from bert_keras.checkpoints.tensors import of_array
from bert_keras.config import BertConfig, ModelMetadata, numbered_labels
from bert_keras.models import MODELS

GOLDEN = Path(__file__).parents[1] / "golden"
MOST = 1e-5


@pytest.fixture(scope="module")
def golden():
    with safe_open(GOLDEN / "tiny.safetensors", framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 no mapping
        return BertConfig(**json.loads(file.metadata()["config"])), arrays


def below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def model_of(name: str, config: BertConfig, weights: dict[str, np.ndarray]):
    model = MODELS[name]
    num_labels = len(weights[f"{model.heads[0]}/dense/bias"]) if model.is_labelled else 0
    metadata = ModelMetadata(
        model=name,
        config=config,
        lowercase=True,
        max_length=config.max_positions,
        labels=numbered_labels(num_labels),
    )
    parts = ("encoder", *model.heads)
    tensors = {
        n: of_array(a.shape, lambda a=a: a) for n, a in weights.items() if n.startswith(parts)
    }
    checkpoint = Checkpoint(metadata=metadata, tensors=tensors, vocabulary=None)
    return model.from_checkpoint(checkpoint, metadata=metadata, source="tests/golden")


@pytest.mark.parametrize("name", CLASSES)
def test_outputs(golden, name):
    config, arrays = golden
    model, batch = model_of(name, config, below("weights/", arrays)), below("inputs/", arrays)
    if name == "BertMultipleChoice":
        batch = our_side.choices(batch, num_choices=2)
    actual, expected = our_side.outputs(model, batch), below(f"outputs/{name}/", arrays)
    assert expected
    for output, array in expected.items():
        np.testing.assert_allclose(actual[output], array, rtol=0, atol=MOST, err_msg=output)


def test_gradients(golden):
    config, arrays = golden
    model = model_of("BertPretrainer", config, below("weights/", arrays))
    loss, actual = our_side.loss_and_gradients(model, below("inputs/", arrays))
    assert loss == pytest.approx(arrays["loss"].item(), abs=MOST)
    expected = below("gradients/", arrays)
    assert actual.keys() == expected.keys()
    for weight, array in expected.items():
        np.testing.assert_allclose(actual[weight], array, rtol=0, atol=MOST, err_msg=weight)


@pytest.mark.extra
def test_the_reference_still_computes_the_golden_values(golden):
    pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    today, (_, arrays) = runpy.run_path(str(GOLDEN / "make.py"))["golden"](), golden
    assert today.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(today[name], array, rtol=0, atol=MOST, err_msg=name)
