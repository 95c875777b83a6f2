"""KerasHub makes and saves two tiny presets; what they answer goes beside.

python tests/checkpoints/make_keras_hub_fixtures.py FOLDER

FOLDER gets masked_lm and classifier: each with a preset and golden.npz, `inputs/` and what the
model answers to them. The masked-LM logits are there twice: as KerasHub's head gives them, and as
it would with the epsilon and the GELU of its own backbone (`alike`).
"""

import sys
from pathlib import Path

import keras
import keras_hub
import numpy as np

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghi", "##a", "##b"]
SIZES = {
    "vocabulary_size": len(TOKENS),
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "max_sequence_length": 10,
    "dropout": 0.2,
}
LENGTH, NUM_CLASSES = 9, 3


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    models = keras_hub.models
    tokenizer = models.BertTokenizer(TOKENS, lowercase=True)

    preprocessor = models.BertMaskedLMPreprocessor(tokenizer, sequence_length=LENGTH)
    backbone = models.BertBackbone(num_layers=2, **SIZES)
    masked_lm = models.BertMaskedLM(backbone, preprocessor)
    draw(masked_lm, random)
    inputs = batch(random)
    positions = {"mask_positions": random.integers(1, 3, (3, 2))}
    results = layers(backbone, inputs) | {"logits": masked_lm(inputs | positions)}
    masked_lm.save_to_preset(folder / "masked_lm")
    block, head = backbone.transformer_layers[0], masked_lm.masked_lm_head
    head._intermediate_dense.activation = block.activation
    head._intermediate_layer_norm.epsilon = block.layer_norm_epsilon
    results["alike"] = masked_lm(inputs | positions)
    save(folder / "masked_lm", inputs | positions, results)

    preprocessor = models.BertTextClassifierPreprocessor(tokenizer, sequence_length=LENGTH)
    backbone = models.BertBackbone(num_layers=1, **SIZES)
    classifier = models.BertTextClassifier(backbone, NUM_CLASSES, preprocessor)
    draw(classifier, random)
    classifier.save_to_preset(folder / "classifier")
    save(folder / "classifier", inputs, {"logits": classifier(inputs)})


def draw(model: keras.Model, random: np.random.Generator) -> None:
    """Biases, gamma and beta must count as well."""
    for weight in model.weights:
        weight.assign(weight + random.normal(size=weight.shape, scale=0.3))


def batch(random: np.random.Generator) -> dict[str, np.ndarray]:
    real = np.array([LENGTH, 6, 3])
    mask = (np.arange(LENGTH) < real[:, None]).astype("int32")
    return {
        "token_ids": random.integers(0, len(TOKENS), mask.shape) * mask,
        "segment_ids": random.integers(0, 2, mask.shape),
        "padding_mask": mask,
    }


def layers(backbone: keras.Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    outputs = {f"states/{n}": layer.output for n, layer in enumerate(hidden_layers(backbone))}
    return keras.Model(backbone.input, backbone.output | outputs)(inputs)


def hidden_layers(backbone: keras.Model) -> list[keras.Layer]:
    return [backbone.embeddings_layer_norm, *backbone.transformer_layers]


def save(folder: Path, inputs: dict, results: dict) -> None:
    arrays = {f"inputs/{name}": np.asarray(array, "int32") for name, array in inputs.items()}
    arrays |= {name: keras.ops.convert_to_numpy(array) for name, array in results.items()}
    np.savez_compressed(folder / "golden.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
