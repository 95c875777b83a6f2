"""A checkpoint and labelled rows in, a fine-tuned classifier and its score out."""

import dataclasses
import os

import keras
import numpy as np

from bert_keras.convert.card import ModelCard
from bert_keras.convert.checkpoint import Checkpoint, part
from bert_keras.encoder.pretrained import save_model
from bert_keras.errors import InputError
from bert_keras.models.classifier import BertClassifier
from bert_keras.runs.outcome import claim_output, has_state, read_scores, write_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.starting_point import open_start
from bert_keras.tasks.classification import ClassificationTask, labels_in, majority_accuracy
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay


def finetune(
    recipe: FinetuneRecipe,
    *,
    pretrained: str | os.PathLike,
    train: str | os.PathLike,
    dev: str | os.PathLike,
    text_columns: tuple[str, ...],
    label_column: str,
    output: str | os.PathLike,
) -> dict:
    """Train on the rows of `train`, score on those of `dev`; leave model, logs, scores in `output`.

    Both files are tables (see `bert_keras.tasks.table`); one text column makes a sentence task, two
    a pair task. The labels are those of `train`. `pretrained` is a checkpoint of any format (see
    bert_keras/convert); a classifier of the same labels and text columns goes on with its head. The
    same call continues an interrupted run. Returns the scores: accuracy beside that of the majority
    label.
    """
    checkpoint = open_start(pretrained)
    source, tokenizer = checkpoint.card, checkpoint.tokenizer
    card = ModelCard(
        model="BertClassifier",
        config=dataclasses.replace(
            source.config,
            hidden_dropout_rate=recipe.dropout_rate,
            attention_dropout_rate=recipe.dropout_rate,
            has_pooler=True,
        ),
        lowercase=source.lowercase,
        max_length=recipe.max_length,
        text_columns=text_columns,
        labels=labels_in(train, label_column=label_column),
    )
    task = ClassificationTask(
        text_columns, label_column, card.labels, recipe.max_length, recipe.long_texts
    )
    if len(text_columns) > source.config.num_segments:
        raise InputError(
            f"a pair needs 2 segments and the encoder of {pretrained} has "
            f"{source.config.num_segments}; name one text column, or begin from another checkpoint"
        )
    train_rows, dev_rows = task.read(train, tokenizer), task.read(dev, tokenizer)
    output = claim_output(
        output,
        recipe=recipe,
        pretrained=os.path.abspath(pretrained),
        train=os.path.abspath(train),
        text_columns=", ".join(text_columns),
        label_column=label_column,
    )
    if (scores := read_scores(output)) is not None:
        return scores

    keras.utils.set_random_seed(recipe.seed)
    if recipe.initial_weights == "pretrained" and not has_state(output):
        model = BertClassifier.from_checkpoint(
            checkpoint, card=card, source=pretrained, new=_new_parts(checkpoint, card)
        )
        print(model.load_report)
    else:
        model = BertClassifier(card.config, num_labels=len(card.labels))
    steps_per_log = -(-len(train_rows) // (recipe.batch_size * recipe.logs_per_epoch))
    num_steps = steps_per_log * recipe.logs_per_epoch * recipe.num_epochs
    model.compile(
        optimizer=BertAdamW(
            LinearWarmupDecay(
                recipe.learning_rate,
                num_steps=num_steps,
                num_warmup_steps=int(recipe.warmup_rate * num_steps),
            ),
            weight_decay_rate=recipe.weight_decay_rate,
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    dev_batches = task.ordered_batches(dev_rows, tokenizer, batch_size=recipe.batch_size)
    fit_resumable(
        model,
        task.training_batches(
            train_rows, tokenizer, batch_size=recipe.batch_size, seed=recipe.seed
        ),
        stage="fine-tune",
        output=output,
        num_steps=num_steps,
        steps_per_log=steps_per_log,
        logs_per_checkpoint=recipe.logs_per_epoch,
        keep_checkpoints=recipe.keep_checkpoints,
        batch_size=recipe.batch_size,
        tokens_per_example=float(np.minimum(train_rows.lengths, recipe.max_length).mean()),
        held_out=dev_batches,
    )
    logits = model.predict(dev_batches, verbose=0)
    save_model(model, output / "model", card=card, vocabulary=tokenizer.vocabulary)
    return write_scores(
        output,
        {
            "accuracy": float(np.mean(logits.argmax(-1) == dev_rows.label_ids)),
            "majority_accuracy": majority_accuracy(train_rows, dev_rows),
            "dev_rows": len(dev_rows),
            "train_rows": len(train_rows),
            "steps": num_steps,
        },
    )


def _new_parts(checkpoint: Checkpoint, card: ModelCard) -> set[str]:
    """The head, but of a classifier of the same task; the pooler where there is none yet.

    Labels alone do not tell a task: those of many are 0 and 1.
    """
    found, source = set(map(part, checkpoint.tensors)), checkpoint.card
    if (source.labels, source.text_columns) != (card.labels, card.text_columns):
        found.discard("classification")
    return {"classification", "pooler"} - found
