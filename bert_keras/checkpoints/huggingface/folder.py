"""Reads and writes the folders of BERT and its relatives in Hugging Face's transformers.

config.json         hyperparameters, class and labels; see config.py
model.safetensors   the weights, or their shards, or pytorch_model.bin; see weights.py
vocab.txt, tokenizer.json, tokenizer_config.json    the tokenizer; see tokenizer.py
vocab.json and merges.txt, or a model file of SentencePiece    the tokenizer; see rules.py
"""

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

from bert_keras.architectures import (
    ARCHITECTURES,
    CLASSIFIER,
    DISCRIMINATOR,
    ENCODER,
    MASKED_LM,
    MULTIPLE_CHOICE,
    PRETRAINER,
    QUESTION_ANSWERING,
    TOKEN_CLASSIFIER,
)
from bert_keras.checkpoints.checkpoint import Checkpoint, fitted_vocabulary
from bert_keras.checkpoints.foreign import training_fields
from bert_keras.checkpoints.huggingface.config import (
    CONFIG,
    read_architecture,
    read_config,
    read_extra,
    read_labels,
    read_values,
    transformers_classes,
    write_config,
)
from bert_keras.checkpoints.huggingface.tokenizer import (
    check_padding,
    read_tokenizer,
)
from bert_keras.checkpoints.huggingface.tokenizer_files import write_tokenizer
from bert_keras.checkpoints.huggingface.weights import SAFETENSORS, WEIGHT_FILES, read_weights
from bert_keras.checkpoints.mapping import NameColumn, foreign_tensors, renamed, translated
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.safetensors_file import write_tensors
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES, family_of
from bert_keras.family import Family

# Names of our layers and weights in transformers' BERT, without the prefix `bert.` of task models.
# family.Family.weight_names maps them to the names of other families.
BLOCK, TRANSFORMERS_BLOCK = "encoder/layer_{}", "encoder.layer.{}"
LAYERS = {
    "encoder/embeddings/token": "embeddings.word_embeddings.weight",
    "encoder/embeddings/position": "embeddings.position_embeddings.weight",
    "encoder/embeddings/segment": "embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm": "embeddings.LayerNorm",
    "encoder/embeddings/projection": "embeddings.projection",
    f"{BLOCK}/attention/query": f"{TRANSFORMERS_BLOCK}.attention.self.query",
    f"{BLOCK}/attention/key": f"{TRANSFORMERS_BLOCK}.attention.self.key",
    f"{BLOCK}/attention/value": f"{TRANSFORMERS_BLOCK}.attention.self.value",
    f"{BLOCK}/attention/output": f"{TRANSFORMERS_BLOCK}.attention.output.dense",
    f"{BLOCK}/attention_norm": f"{TRANSFORMERS_BLOCK}.attention.output.LayerNorm",
    f"{BLOCK}/feed_forward/intermediate": f"{TRANSFORMERS_BLOCK}.intermediate.dense",
    f"{BLOCK}/feed_forward/output": f"{TRANSFORMERS_BLOCK}.output.dense",
    f"{BLOCK}/feed_forward_norm": f"{TRANSFORMERS_BLOCK}.output.LayerNorm",
    "encoder/final_norm": "final_norm",
    "encoder/pooler": "pooler.dense",
    "encoder/pooler/norm": "pooler.norm",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.LayerNorm",
    "masked_lm/decoder": "cls.predictions.decoder.weight",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence/dense": "cls.seq_relationship",
    "replaced_token/transform": "discriminator_predictions.dense",
    "replaced_token/dense": "discriminator_predictions.dense_prediction",
    "classification/dense": "classifier",
    "token_labels/transform": "head.dense",
    "token_labels/norm": "head.norm",
    "token_labels/dense": "classifier",
    "span/transform": "head.dense",
    "span/norm": "head.norm",
    "span/dense": "qa_outputs",
    "multiple_choice/dense": "classifier",
}
SUFFIXES = {"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"}


def _name(name: str, metadata: ModelMetadata) -> str:
    bert_name, family = renamed(name, LAYERS, suffixes=SUFFIXES), family_of(metadata.config)
    if family is None or not (
        name.startswith("encoder/") or metadata.model in transformers_classes(family)
    ):
        return ""
    return family.weight_name(bert_name, model=metadata.model)


HUGGING_FACE = NameColumn(
    format="huggingface",
    name=_name,
    is_transposed=lambda name: name.endswith("/kernel"),
    kinds=FAMILIES,
)
NEXT_SENTENCE_WEIGHTS = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
# The model class of a folder by the name of a weight in it; the first match decides.
HEADS = {
    NEXT_SENTENCE_WEIGHTS[0]: PRETRAINER.name,
    "cls.predictions.bias": MASKED_LM.name,
    "discriminator_predictions.dense.weight": DISCRIMINATOR.name,
    "qa_outputs.weight": QUESTION_ANSWERING.name,
}
CLASSIFIER_WEIGHTS = ("classifier.weight", "classifier.bias")
CLASSIFIERS = (CLASSIFIER.name, TOKEN_CLASSIFIER.name, MULTIPLE_CHOICE.name)
# Start of the weight names to which task models add the prefix `bert.`.
ENCODER_STARTS = ("embeddings", "encoder.", "transformer.", "layers.", "final_norm.", "pooler.")


def recognises(path: Path) -> bool:
    """Returns whether the folder has weights or config.json of transformers."""
    if not path.is_dir():
        return False
    if any((path / name).is_file() for name in WEIGHT_FILES):
        return True
    return (path / CONFIG).is_file() and not any(path.glob("*.index"))


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a folder of transformers; see `formats.Format`.

    `ignore` may name weights, keys of config.json such as "architectures" and "auto_map", rules of
    the tokenizer such as "strip_accents". Error messages state the name where this is possible.
    """
    values, family = read_values(path)
    config = read_config(values, family)
    named_model, config_notes = read_architecture(values, family, ignore=ignore)
    weights, unused, weight_notes = read_weights(
        path, family=family, ties_decoder=config.ties_decoder, ignore=ignore
    )
    model = _model(weights, named_model, family)
    row = ARCHITECTURES[model]
    pooler = family.weight_name("pooler.dense.weight", model=model)
    labels, label_notes = (), []
    if row.is_labelled:
        names = [family.weight_name(name, model=model) for name in CLASSIFIER_WEIGHTS]
        shape = next(weights[name].shape for name in names if name in weights)
        labels, label_notes = read_labels(values, shape[0] if shape else 1)
    text = read_tokenizer(path, tokenizer_class=values.get("tokenizer_class"), ignore=ignore)
    extra = read_extra(values, model)
    length = text.max_length or extra.get("max_length") or config.max_positions
    problem_type = (values.get("problem_type") or "") if model == CLASSIFIER.name else ""
    has_pooler = row.reads_pooled_output or pooler in weights
    metadata = ModelMetadata(
        model=model,
        config=dataclasses.replace(config, has_pooler=has_pooler),
        lowercase=text.lowercase if text.vocabulary else extra.get("lowercase", True),
        max_length=min(length, config.max_positions),
        labels=labels,
        **{**training_fields(extra), "problem_type": problem_type},
    )
    heads = []
    if "architectures" in ignore:
        heads = [family.weight_name(name, model=model) for name in NEXT_SENTENCE_WEIGHTS]
    tensors, heads = translated(weights, metadata=metadata, column=HUGGING_FACE, ignore=heads)
    return Checkpoint(
        metadata=metadata,
        tensors=tensors,
        vocabulary=fitted_vocabulary(text.vocabulary, metadata, pad_vocabulary=pad_vocabulary),
        unused=(*unused, *heads),
        notes=(*config_notes, *label_notes, *weight_notes, *text.notes),
    )


def _model(weights: Mapping[str, StoredTensor], named_model: str, family: Family) -> str:
    """Returns the model class whose heads are among the weights.

    The class that config.json names is not sufficient: bert-base-uncased has the weights of two
    heads and its config.json names the class with one of them.
    """
    of_classifier = [family.weight_name(name, model=CLASSIFIER.name) for name in CLASSIFIER_WEIGHTS]
    if any(name in weights for name in set(of_classifier) - set(CLASSIFIER_WEIGHTS)):
        return CLASSIFIER.name
    if any(name in weights for name in CLASSIFIER_WEIGHTS):
        models = [*CLASSIFIERS]
        span = family.weight_name("qa_outputs.weight", model=QUESTION_ANSWERING.name)
        if span in CLASSIFIER_WEIGHTS:
            models.append(QUESTION_ANSWERING.name)
        if named_model in models:
            return named_model
        classes = [transformers_classes(family)[model] for model in models]
        raise InputError(
            f"{CLASSIFIER_WEIGHTS[0]} can belong to {', '.join(classes)}; name the class in "
            f'{CONFIG}, such as "architectures": ["{classes[0]}"]'
        )
    heads = [m for name, m in HEADS.items() if family.weight_name(name, model=m) in weights]
    # A next-sentence head alone is that of BertForNextSentencePrediction, which has no class here.
    if heads == [PRETRAINER.name] != [named_model]:
        heads = []
    return next(iter(heads), ENCODER.name)


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes weights, config.json and tokenizer files; see `formats.Format`."""
    metadata, vocabulary = checkpoint.metadata, checkpoint.vocabulary
    tensors, notes = foreign_tensors(checkpoint.tensors, metadata=metadata, column=HUGGING_FACE), ()
    # Not None: `foreign_tensors` has checked it.
    family = cast(Family, family_of(metadata.config, vocabulary))
    check_padding(family, vocabulary)
    write_config(metadata, folder, family=family, vocabulary=vocabulary)
    if vocabulary is not None:
        notes += write_tokenizer(metadata, vocabulary, folder)
    has_pooler = ARCHITECTURES[metadata.model].reads_pooled_output
    if metadata.model == ENCODER.name:
        has_pooler = family.has_pooler
    else:
        prefix = family.weight_prefix
        tensors = {
            f"{prefix}{n}" if n.startswith(ENCODER_STARTS) else n: t for n, t in tensors.items()
        }
    write_tensors(folder / SAFETENSORS, tensors, metadata={"format": "pt"})
    class_name = transformers_classes(family)[metadata.model]
    if has_pooler and not metadata.config.has_pooler:
        notes += (f"the model has no pooler: {class_name} starts with a random one",)
    if metadata.config.has_pooler and not has_pooler:
        notes += (f"{class_name} has no pooler: transformers ignores that of this model",)
    return notes
