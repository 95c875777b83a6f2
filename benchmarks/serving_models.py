"""Writes one classifier with random weights in the formats that serving.py and litert.py compare.

PyTorch exports the classifier of transformers with the same weights to ONNX. ONNX Runtime's
optimizer for BERT then writes the float32 model, and its dynamic quantization the int8 model.
"""

import logging
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.text.tokenizer import TextTokenizer

SAVED_MODEL, LITERT, LITERT_INT8 = "saved-model", "litert", "litert-int8"
ONNX, ONNX_INT8 = "onnx", "onnx-int8"
OURS = {  # name -> arguments of `write_version`
    SAVED_MODEL: {"formats": ("tf_saved_model",)},
    LITERT: {"formats": ("litert",)},
    LITERT_INT8: {"formats": ("litert",), "is_int8": True},
}
ONNX_FILES = {ONNX: "model.onnx", ONNX_INT8: "int8.onnx"}
PLAIN_ONNX = "plain.onnx"  # without the operations of ONNX Runtime alone
TOKENIZER = "tokenizer.json"
ONNX_PACKAGES = ("onnx", "onnxruntime", "torch", "transformers")
LABELS = ("0", "1")
SEED = 1


def check_onnx_packages() -> None:
    if missing := [name for name in ONNX_PACKAGES if not find_spec(name)]:
        found = f"an ONNX model needs {', '.join(missing)}"
        raise InputError(f"{found}; run pip install {' '.join(missing)}")


def write_models(
    config: BertConfig,
    folder: Path,
    names: Collection[str],
    *,
    tokenizer: TextTokenizer,
    max_length: int,
) -> None:
    """Writes ours as folder/NAME/1, and both ONNX models and the tokenizer into folder/onnx."""
    import keras

    from bert_keras import BertClassifier
    from bert_keras.exporting.export import plan_of_model, write_version

    if {*ONNX_FILES} & {*names}:
        check_onnx_packages()
    keras.utils.set_random_seed(SEED)
    model = BertClassifier(config, num_labels=len(LABELS))
    for name, arguments in OURS.items():
        if name in names:
            path = folder / name / "1"
            options = {"tokenizer": tokenizer, "labels": LABELS, "max_length": max_length}
            write_version(model, plan_of_model(model, path, **options), path, **arguments)
    if {*ONNX_FILES} & {*names}:
        path = folder / ONNX
        model.save_pretrained(path, format="huggingface", tokenizer=tokenizer, labels=LABELS)
        _write_onnx(config, path)


def _write_onnx(config: BertConfig, folder: Path) -> None:
    """Adds the ONNX models to a folder of transformers."""
    import torch
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertForSequenceClassification

    # ONNX Runtime recognizes the attention of this implementation and this exporter alone.
    loaded = BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    plain, fused, int8 = (folder / name for name in (PLAIN_ONNX, *ONNX_FILES.values()))
    torch.onnx.export(
        loaded.eval(),
        kwargs={name: torch.ones(2, 16, dtype=torch.int64) for name in names},
        f=plain,
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names} | {"logits": {0: "texts"}},
        dynamo=False,
    )
    logging.disable(logging.WARNING)  # advice of the optimizer and of the quantization
    sizes = {"num_heads": config.num_heads, "hidden_size": config.hidden_size}
    optimized = optimize_model(str(plain), model_type="bert", **sizes)
    optimized.save_model_to_file(str(fused))
    quantize_dynamic(plain, int8)  # the fused model is not faster in int8
    logging.disable(logging.NOTSET)
