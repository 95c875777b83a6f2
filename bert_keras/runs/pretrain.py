"""A folder of records in, a pretrained model out, with its held-out losses beside the unigram's."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.convert.card import ModelCard
from bert_keras.convert.letter_case import seems_lowercase
from bert_keras.data.masking import Masker
from bert_keras.data.objectives import DynamicMasking
from bert_keras.data.records import (
    common_schema,
    feature_batches,
    pretraining_dataset,
    readable_records,
    record_files,
)
from bert_keras.data.schema import PretrainingSchema
from bert_keras.devices.cluster import is_chief
from bert_keras.encoder.pretrained import save_model
from bert_keras.errors import InputError
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.presets import preset
from bert_keras.progress import progress
from bert_keras.runs.outcome import (
    claim_output,
    has_state,
    model_folder,
    read_scores,
    write_scores,
)
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.runs.starting_point import StartingPoint, starting_point
from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.checkpoints import load_training_state
from bert_keras.training.loop import fit_resumable
from bert_keras.training.losses import OUTPUTS, pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import OPTIMIZERS
from bert_keras.training.schedule import LinearWarmupDecay


def pretrain(
    recipe: PretrainRecipe,
    *,
    records: str | os.PathLike,
    output: str | os.PathLike,
    start: str | os.PathLike | None = None,
) -> dict:
    """Train on `records`/train*.tfrecord and leave `output`/model, logs, checkpoints, scores.json.

    `records` is what `bert-tfrecords build` wrote, or any folder of the original's record files
    with their vocab.txt. Records of plain ids are masked as the recipe says, anew each epoch;
    records without labels train masked words alone. Where there are held-out*.tfrecord they are
    scored on the way and at the end. The same call continues a run that was interrupted. Returns
    the scores; {} on all workers but the first, which writes.

    `start` is a checkpoint of any format (see bert_keras/convert) to begin from, in place of the
    recipe's size: heads that it lacks begin with fresh weights. With its training state the run
    goes on at its step, which `num_steps` counts too; the records are read from their beginning.
    """
    records = Path(records)
    if not records.is_dir():
        raise InputError(f"{records} is not a folder; expected one that bert-tfrecords build wrote")
    vocabulary = Vocabulary.from_file(records / "vocab.txt")
    files = record_files(records)
    held_out_files = sorted(map(str, records.glob("held-out*.tfrecord")))
    schema = common_schema([*files, *held_out_files])
    lowercase = _lowercase(records)
    masking = _masking(recipe, schema, vocabulary)
    dataset = partial(pretraining_dataset, masking=masking)
    begin, started = None, {}
    if start is not None:
        begin = starting_point(
            start, recipe=recipe, vocabulary=vocabulary, schema=schema, lowercase=lowercase
        )
        started = {"start": begin.path, "start_step": str(begin.step)}
        lowercase = begin.checkpoint.card.lowercase
    elif lowercase is None:
        lowercase = seems_lowercase(vocabulary)
    card = ModelCard(
        model="BertPretrainer" if schema.has_labels else "BertMaskedLM",
        config=_config(recipe, vocabulary, schema) if begin is None else begin.config,
        lowercase=lowercase,
        max_length=schema.max_length,
    )
    tokens_per_example = _look_at_records(files, card.config)
    output = claim_output(output, recipe=recipe, records=str(records.resolve()), **started)
    if (scores := read_scores(output)) is not None:
        return scores

    model = _compiled_model(recipe, card, begin, resumes=has_state(output))
    held_out = None
    if held_out_files:
        held_out = dataset(held_out_files, batch_size=recipe.batch_size, drop_remainder=False)
    with readable_records():
        fit_resumable(
            model,
            dataset(files, batch_size=recipe.batch_size, seed=recipe.seed, repeat=True),
            stage="pretrain",
            output=output,
            num_steps=recipe.num_steps,
            steps_per_epoch=recipe.steps_per_log,
            epochs_per_checkpoint=recipe.logs_per_checkpoint,
            keep_checkpoints=recipe.keep_checkpoints,
            batch_size=recipe.batch_size,
            tokens_per_example=tokens_per_example,
            held_out=held_out,
        )
        if not is_chief():
            return {}
        scores = {"parameters": model.count_params(), "steps": recipe.num_steps}
        if held_out is not None:
            scores |= evaluate_pretrainer(model, held_out)
            scores |= unigram_baseline(
                files, held_out_files, vocab_size=len(vocabulary), dataset=dataset
            )
    save_model(model, model_folder(output), card=card, vocabulary=vocabulary)
    return write_scores(output, scores)


def _config(
    recipe: PretrainRecipe, vocabulary: Vocabulary, schema: PretrainingSchema
) -> BertConfig:
    return preset(
        recipe.size,
        vocab_size=len(vocabulary),
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        initializer_stddev=recipe.initializer_stddev,
        has_pooler=schema.has_labels,
    )


def _compiled_model(
    recipe: PretrainRecipe, card: ModelCard, begin: StartingPoint | None, *, resumes: bool
) -> BertPretrainer | BertMaskedLM:
    """As the run begins; where it `resumes`, what its own state is put into."""
    keras.utils.set_random_seed(recipe.seed)
    Model = {cls.__name__: cls for cls in (BertPretrainer, BertMaskedLM)}[card.model]
    if begin is None or resumes:
        model = Model(card.config)
    else:
        model = Model.from_checkpoint(begin.checkpoint, card=card, source=begin.path, new=begin.new)
        print(model.load_report, begin, sep="\n")
    outputs = OUTPUTS if card.model == "BertPretrainer" else OUTPUTS[:1]
    model.compile(
        optimizer=OPTIMIZERS[recipe.optimizer](
            LinearWarmupDecay(
                recipe.learning_rate,
                num_steps=recipe.num_steps,
                num_warmup_steps=recipe.num_warmup_steps,
            ),
            weight_decay_rate=recipe.weight_decay_rate,
        ),
        loss=pretraining_losses(outputs),
        weighted_metrics=pretraining_metrics(outputs),
        gradient_accumulation_steps=recipe.gradient_accumulation_steps,
    )
    if begin is not None and resumes:
        model.optimizer.iterations.assign(begin.step)  # where the run began
    elif begin is not None and begin.state is not None:
        load_training_state(model, begin.state)
    return model


def _masking(
    recipe: PretrainRecipe, schema: PretrainingSchema, vocabulary: Vocabulary
) -> DynamicMasking | None:
    """What masks records of plain ids; None where the records hold masks."""
    if schema.max_predictions:
        if changes := recipe.masking_changes():
            raise InputError(
                f"the recipe changes {', '.join(changes)}, but the records are masked already; "
                "leave them out, or write records of plain ids"
            )
        return None
    policy = recipe.masking_policy(max_length=schema.max_length)
    return DynamicMasking(Masker(policy, vocabulary), seed=recipe.seed)


def evaluate_pretrainer(model: BertPretrainer | BertMaskedLM, held_out) -> dict[str, float]:
    """Losses in nats and accuracies over a whole data set; each prediction weighs the same."""
    names = list(held_out.element_spec[1])
    sums = {name: np.zeros(3) for name in names}  # of losses, hits, weights
    examples = 0
    forward = tf.function(partial(model, training=False), reduce_retracing=True)
    for inputs, targets, weights in progress(held_out, stage="score held-out", unit="batch"):
        logits = {name: array.numpy() for name, array in forward(inputs).items()}
        for name in names:
            answers, weight = targets[name].numpy(), weights[name].numpy()
            losses = _cross_entropy(logits[name], answers)
            hits = logits[name].argmax(-1) == answers
            sums[name] += [(losses * weight).sum(), (hits * weight).sum(), weight.sum()]
        examples += len(inputs["input_ids"])
    scores = {}
    for name, (loss, hits, weight) in sums.items():
        scores[f"held_out_{name}_loss"] = float(loss / weight)
        scores[f"held_out_{name}_accuracy"] = float(hits / weight)
    return scores | {
        "held_out_predictions": float(sums["masked_lm"][2]),
        "held_out_examples": float(examples),
    }


def unigram_baseline(
    files: list[str], held_out_files: list[str], *, vocab_size: int, dataset: Callable
) -> dict[str, float]:
    """What a model without context reaches on the held-out predictions: it answers every gap with
    the frequencies (plus one) of the training predictions, or with the most frequent piece.
    `dataset` reads files as `pretraining_dataset` does.
    """

    def answers(part, batches):
        return _answer_counts(batches, vocab_size, stage=f"count {part} answers")

    once = {"batch_size": 1024, "drop_remainder": False}
    counts = answers("training", dataset(files, **once))
    held_out = answers("held-out", dataset(held_out_files, **once))
    log_share = np.log((counts + 1) / (counts + 1).sum())
    return {
        "unigram_masked_lm_loss": float(-(held_out * log_share).sum() / held_out.sum()),
        "unigram_masked_lm_accuracy": float(held_out[counts.argmax()] / held_out.sum()),
    }


def _answer_counts(batches, vocab_size: int, *, stage: str) -> np.ndarray:
    counts = np.zeros(vocab_size)
    for _, targets, weights in progress(batches, stage=stage, unit="batch"):
        real = weights["masked_lm"].numpy() > 0
        counts += np.bincount(targets["masked_lm"].numpy()[real], minlength=vocab_size)
    return counts


def _cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[..., V] and int [...] -> [...], in nats."""
    largest = logits.max(-1)
    log_total = largest + np.log(np.exp(logits - largest[..., None]).sum(-1))
    return log_total - np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]


def _lowercase(records: Path) -> bool | None:
    """As the records' own manifest says; None of foreign records."""
    manifest = records / "manifest.json"
    if manifest.is_file():
        try:
            return json_object(manifest)["settings"]["lowercase"]
        except (KeyError, TypeError) as error:
            raise InputError(f"{manifest} is not what bert-tfrecords build wrote") from error
    return None


def _look_at_records(files: list[str], config: BertConfig) -> float:
    """Mean count of real tokens in the first thousand records, whose ids and segments must be ones
    of the encoder."""
    # Batches that end read all files once, to count: a truncated one shows before training.
    features = next(iter(feature_batches(files, batch_size=1000, drop_remainder=False)))
    largest = int(features["input_ids"].numpy().max())
    if largest >= config.vocab_size:
        raise InputError(
            f"{files[0]} holds the id {largest}, but vocab.txt beside it has {config.vocab_size} "
            "pieces; put the vocabulary there that the records were written with"
        )
    if features["segment_ids"].numpy().max() >= config.num_segments:
        raise InputError(
            f"{files[0]} holds pairs, which need 2 segments, and the encoder to begin from has "
            f"{config.num_segments}; begin from another, or write records without pairs: "
            "bert-tfrecords build --objective full-sentences"
        )
    return float(features["input_mask"].numpy().sum(axis=1).mean())
