"""Reads and writes the folders of BERT and its relatives in Hugging Face's transformers.

config.json         hyperparameters, class and labels; see config.py
model.safetensors   the weights, or their shards, or pytorch_model.bin; see weights.py
vocab.txt, tokenizer.json, tokenizer_config.json    the tokenizer; see tokenizer.py
vocab.json and merges.txt, spiece.model             the tokenizer; see rules.py
modules.json        names the subfolder with these files; only in sentence-transformers models
"""

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import cast

from bert_keras.architectures import (
    ARCHITECTURES,
    CLASSIFIER,
    ENCODER,
    FAMILIES,
    MASKED_LM,
    MULTIPLE_CHOICE,
    PRETRAINER,
    QUESTION_ANSWERING,
    TOKEN_CLASSIFIER,
    Family,
    family_of,
)
from bert_keras.checkpoints.card import ModelCard
from bert_keras.checkpoints.checkpoint import Checkpoint, fitting
from bert_keras.checkpoints.foreign import training_fields
from bert_keras.checkpoints.huggingface.config import (
    CONFIG,
    read_architecture,
    read_config,
    read_labels,
    read_own,
    read_values,
    their_class,
    write_config,
)
from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer, write_tokenizer
from bert_keras.checkpoints.huggingface.weights import (
    SAFETENSORS,
    WEIGHT_FILES,
    read_weights,
)
from bert_keras.checkpoints.mapping import Column, foreign_tensors, renamed, translated
from bert_keras.checkpoints.safetensors_file import write_tensors
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.errors import InputError

MODULES = "modules.json"
# Names of our layers and weights in transformers' BERT, without the prefix `bert.` of task models.
# architectures.Family.weights maps them to the names of other families.
BLOCK, THEIR_BLOCK = "encoder/layer_{}", "encoder.layer.{}"
LAYERS = {
    "encoder/embeddings/token": "embeddings.word_embeddings.weight",
    "encoder/embeddings/position": "embeddings.position_embeddings.weight",
    "encoder/embeddings/segment": "embeddings.token_type_embeddings.weight",
    "encoder/embeddings/norm": "embeddings.LayerNorm",
    "encoder/embeddings/projection": "embeddings.projection",
    f"{BLOCK}/attention/query": f"{THEIR_BLOCK}.attention.self.query",
    f"{BLOCK}/attention/key": f"{THEIR_BLOCK}.attention.self.key",
    f"{BLOCK}/attention/value": f"{THEIR_BLOCK}.attention.self.value",
    f"{BLOCK}/attention/output": f"{THEIR_BLOCK}.attention.output.dense",
    f"{BLOCK}/attention_norm": f"{THEIR_BLOCK}.attention.output.LayerNorm",
    f"{BLOCK}/feed_forward/intermediate": f"{THEIR_BLOCK}.intermediate.dense",
    f"{BLOCK}/feed_forward/output": f"{THEIR_BLOCK}.output.dense",
    f"{BLOCK}/feed_forward_norm": f"{THEIR_BLOCK}.output.LayerNorm",
    "encoder/pooler": "pooler.dense",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.LayerNorm",
    "masked_lm/output_bias": "cls.predictions.bias",
    "next_sentence/dense": "cls.seq_relationship",
    "classification/dense": "classifier",
    "token_labels/dense": "classifier",
    "span/dense": "qa_outputs",
    "multiple_choice/dense": "classifier",
}
ENDS = {"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"}


def _name(name: str, card: ModelCard) -> str:
    theirs, family = renamed(name, LAYERS, ends=ENDS), family_of(card.config)
    return family.weight(theirs, model=card.model) if family else ""


HUGGING_FACE = Column(
    format="huggingface",
    name=_name,
    is_transposed=lambda name: name.endswith("/kernel"),
    kinds=FAMILIES,
)
NEXT = ("cls.seq_relationship.weight", "cls.seq_relationship.bias")
# The model class of a folder by the name of a weight in it; the first match decides.
HEADS = {
    NEXT[0]: PRETRAINER.name,
    "cls.predictions.bias": MASKED_LM.name,
    "qa_outputs.weight": QUESTION_ANSWERING.name,
}
CLASSIFIER_WEIGHTS = ("classifier.weight", "classifier.bias")
CLASSIFIERS = (CLASSIFIER.name, TOKEN_CLASSIFIER.name, MULTIPLE_CHOICE.name)
# Start of the weight names to which task models add the prefix `bert.`.
OF_ENCODER = ("embeddings", "encoder.", "transformer.", "pooler.")


def recognises(path: Path) -> bool:
    """Returns whether the folder has weights, modules.json or config.json of transformers."""
    if not path.is_dir():
        return False
    if (path / MODULES).is_file() or any((path / name).is_file() for name in WEIGHT_FILES):
        return True
    return (path / CONFIG).is_file() and not any(path.glob("*.index"))


def read(path: Path, *, ignore: Collection[str], pad_vocabulary: bool) -> Checkpoint:
    """Reads a folder of transformers; see `formats.Format`.

    `ignore` may name weights, keys of config.json such as "architectures" and "auto_map", and rules
    of the tokenizer such as "strip_accents". Error messages state the name where this is possible.
    """
    folder, notes = _encoder_folder(path)
    values, family = read_values(folder)
    config = read_config(values, family)
    named, config_notes = read_architecture(values, family, ignore=ignore)
    weights, left_over, weight_notes = read_weights(folder, family=family, ignore=ignore)
    model = _model(weights, named, family)
    row = ARCHITECTURES[model]
    pooler = family.weight("pooler.dense.weight", model=model)
    labels, label_notes = (), []
    if row.is_labelled:
        names = [family.weight(name, model=model) for name in CLASSIFIER_WEIGHTS]
        shape = next(weights[name].shape for name in names if name in weights)
        labels, label_notes = read_labels(values, shape[0] if shape else 1)
    text = read_tokenizer(folder, tokenizer_class=values.get("tokenizer_class"), ignore=ignore)
    own = read_own(values, model)
    length = text.max_length or own.get("max_length") or config.max_positions
    problem_type = (values.get("problem_type") or "") if model == CLASSIFIER.name else ""
    has_pooler = row.reads_pooled_output or pooler in weights
    card = ModelCard(
        model=model,
        config=dataclasses.replace(config, has_pooler=has_pooler),
        lowercase=text.lowercase if text.vocabulary else own.get("lowercase", True),
        max_length=min(length, config.max_positions),
        labels=labels,
        **{**training_fields(own), "problem_type": problem_type},
    )
    heads = [family.weight(name, model=model) for name in NEXT if "architectures" in ignore]
    tensors, heads = translated(weights, card=card, column=HUGGING_FACE, ignore=heads)
    return Checkpoint(
        card=card,
        tensors=tensors,
        vocabulary=fitting(text.vocabulary, card, pad_vocabulary=pad_vocabulary),
        left_over=(*left_over, *heads),
        notes=(*notes, *config_notes, *label_notes, *weight_notes, *text.notes),
    )


def _encoder_folder(path: Path) -> tuple[Path, list[str]]:
    """Returns the folder with the files of the transformers model, and notes.

    In a folder of sentence-transformers, modules.json names this folder.
    """
    if not (path / MODULES).is_file():
        return path, []
    try:
        modules = json.loads((path / MODULES).read_text(encoding="utf-8"))
        places = {module["type"].split(".")[-1]: module["path"] for module in modules}
        place = PurePosixPath(places.pop("Transformer"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path / MODULES} names no Transformer; expected what sentence-transformers writes"
        ) from error
    if place.is_absolute() or ".." in place.parts:
        raise InputError(f"{path / MODULES} leads to {place}; expected a folder within")
    after = ", ".join(places) or "nothing"
    return path / place, [
        f"of this sentence-transformers model its encoder alone; after it: {after}"
    ]


def _model(weights: Mapping[str, StoredTensor], named: str, family: Family) -> str:
    """Returns the model class whose heads are among the weights.

    The class that config.json names is not sufficient: bert-base-uncased has the weights of two
    heads and its config.json names the class with one of them.
    """
    of_classifier = [family.weight(name, model=CLASSIFIER.name) for name in CLASSIFIER_WEIGHTS]
    if any(name in weights for name in set(of_classifier) - set(CLASSIFIER_WEIGHTS)):
        return CLASSIFIER.name
    if any(name in weights for name in CLASSIFIER_WEIGHTS):
        if named in CLASSIFIERS:
            return named
        classes = [their_class(model, family) for model in CLASSIFIERS]
        raise InputError(
            f"{CLASSIFIER_WEIGHTS[0]} may be of {', '.join(classes)}; write into {CONFIG} "
            f'which it is: "architectures": ["{classes[0]}"]'
        )
    heads = [m for name, m in HEADS.items() if family.weight(name, model=m) in weights]
    # A next-sentence head alone is that of BertForNextSentencePrediction, which has no class here.
    if heads == [PRETRAINER.name] != [named]:
        heads = []
    return next(iter(heads), ENCODER.name)


def write(checkpoint: Checkpoint, folder: Path) -> tuple[str, ...]:
    """Writes weights, config.json and tokenizer files; see `formats.Format`."""
    card, vocabulary = checkpoint.card, checkpoint.vocabulary
    tensors, notes = foreign_tensors(checkpoint.tensors, card=card, column=HUGGING_FACE), ()
    family = cast(Family, family_of(card.config))  # not None: `foreign_tensors` has checked it
    write_config(card, folder, family=family, vocabulary=vocabulary)
    if vocabulary is not None:
        notes += write_tokenizer(card, vocabulary, folder)
    has_pooler = ARCHITECTURES[card.model].reads_pooled_output
    if card.model == ENCODER.name:
        has_pooler = family.has_pooler
    else:
        prefix = f"{family.kind}."
        tensors = {f"{prefix}{n}" if n.startswith(OF_ENCODER) else n: t for n, t in tensors.items()}
    write_tensors(folder / SAFETENSORS, tensors, metadata={"format": "pt"})
    their_name = their_class(card.model, family)
    if has_pooler and not card.config.has_pooler:
        notes += (f"there is no pooler: {their_name} begins with a fresh one",)
    if card.config.has_pooler and not has_pooler:
        notes += (f"{their_name} has no pooler: transformers leaves the one here, as unexpected",)
    return notes
