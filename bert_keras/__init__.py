"""BERT in Keras 3 and TensorFlow: pretraining, fine-tuning, export and serving.

The modules of the public names are imported on first use, so `import bert_keras` is fast.
"""

from importlib import import_module

from bert_keras.architectures import ARCHITECTURES

_HOMES = {
    "BertConfig": "bert_keras.config",
    "preset": "bert_keras.presets",
    "Vocabulary": "bert_keras.text.vocab",
    "WordPieceTokenizer": "bert_keras.text.tokenizer",
    "encode": "bert_keras.text.encode",
    "encode_masked": "bert_keras.text.encode",
    "pretraining_dataset": "bert_keras.data.records",
    **{row.name: row.module for row in ARCHITECTURES.values()},
    "load_model": "bert_keras.models",
    "from_keras_hub": "bert_keras.models.keras_hub",
    "to_keras_hub": "bert_keras.models.keras_hub",
    "BertAdamW": "bert_keras.training.optimizer",
    "Distiller": "bert_keras.training.distiller",
    "LinearWarmupDecay": "bert_keras.training.schedule",
    "export_classifier": "bert_keras.exporting.model_folder",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'bert_keras' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
