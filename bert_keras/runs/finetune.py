"""A checkpoint and a task's examples in, a fine-tuned model, its scores and predictions out."""

import dataclasses
import os
from pathlib import Path

import keras

from bert_keras.convert.card import HEADS, ModelCard
from bert_keras.convert.checkpoint import Checkpoint, part
from bert_keras.encoder.pretrained import save_model
from bert_keras.errors import InputError
from bert_keras.models.loading import MODELS
from bert_keras.runs.outcome import claim_output, has_state, read_scores, write_scores
from bert_keras.runs.recipes import FinetuneRecipe
from bert_keras.runs.starting_point import open_start
from bert_keras.tasks.batches import Predictor, training_batches
from bert_keras.tasks.task import Encoded, Task
from bert_keras.training.evaluations import Evaluations
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay


def finetune(
    task: Task,
    recipe: FinetuneRecipe,
    *,
    pretrained: str | os.PathLike,
    train: str,
    dev: str,
    output: str | os.PathLike,
    features: str | os.PathLike | None = None,
) -> dict[str, float]:
    """Train on the examples of `train`, score those of `dev` after every epoch; leave the best
    model, its predictions on dev, logs and scores in `output`.

    Both are places that `task.files` names, or files that the task reads. `pretrained` is a
    checkpoint of any format (see bert_keras/convert); a model of the same task goes on with its
    head. What a task of frozen features computes once is kept in `features`, by default
    `output`/features; several runs may share it. The same call continues an interrupted run.
    Returns the scores of the best epoch beside what the task's baseline reaches.
    """
    checkpoint = open_start(pretrained)
    examples = task.read(train, split="train")
    task = task.with_labels_of(examples)
    dev_examples = task.read(dev, split="dev")
    card = model_card(task, recipe, checkpoint)
    encoded = task.encode(examples, checkpoint.tokenizer)
    dev_encoded = task.encode(dev_examples, checkpoint.tokenizer)
    _refuse_too_few_segments(encoded, card, pretrained)
    output = claim_output(
        output,
        recipe=recipe,
        task=task.settings(),
        pretrained=os.path.abspath(pretrained),
        train=_place(train),
        dev=_place(dev),
    )
    if (scores := read_scores(output)) is not None:
        return scores

    num_steps = recipe.num_epochs * -(-len(encoded) // recipe.batch_size)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.initial_weights == "pretrained" and not has_state(output):
        model = MODELS[task.model].from_checkpoint(
            checkpoint, card=card, source=pretrained, new=new_parts(checkpoint, card)
        )
        print(model.load_report)
    else:
        model = MODELS[task.model].from_card(card)
    part_trained = compiled(task, model, recipe, num_steps=num_steps)
    features = output / "features" if features is None else Path(features)
    encoded = task.prepared(encoded, model, folder=features / "train")
    dev_encoded = task.prepared(dev_encoded, model, folder=features / "dev")
    predictor = Predictor(part_trained)

    def evaluate() -> dict[str, float]:
        outputs, loss = predictor(dev_encoded, stage="score dev")
        predictions = task.predictions(dev_examples, dev_encoded, outputs)
        return {**task.score(dev_examples, predictions), "loss": loss}

    evaluations = Evaluations(evaluate, metric=task.metric, folder=output, patience=recipe.patience)
    fit_resumable(
        part_trained,
        training_batches(encoded, batch_size=recipe.batch_size, seed=recipe.seed),
        stage="fine-tune",
        output=output,
        num_steps=num_steps,
        steps_per_epoch=num_steps // recipe.num_epochs,
        epochs_per_checkpoint=1,
        keep_checkpoints=recipe.keep_checkpoints,
        batch_size=recipe.batch_size,
        tokens_per_example=float(encoded.lengths.mean()),
        points_per_epoch=recipe.logs_per_epoch,
        evaluations=evaluations,
    )
    evaluations.restore_best(part_trained)
    outputs, _ = predictor(dev_encoded, stage="predict dev")
    predictions = task.predictions(dev_examples, dev_encoded, outputs)
    task = task.tuned(dev_examples, predictions)
    predictions = task.predictions(dev_examples, dev_encoded, outputs)
    task.write_predictions(output / task.prediction_file, dev_examples, predictions)
    card = dataclasses.replace(card, task=task.settings())
    save_model(model, output / "model", card=card, vocabulary=checkpoint.vocabulary)
    return write_scores(
        output,
        {
            **task.score(dev_examples, predictions),
            **task.baseline(examples, dev_examples),
            "best_step": evaluations.best["step"],
            "steps": num_steps,
            "train_rows": len(encoded),
            "dev_rows": len(dev_examples),
        },
    )


def model_card(task: Task, recipe: FinetuneRecipe, checkpoint: Checkpoint) -> ModelCard:
    """Of the model that the recipe makes of the checkpoint for the task."""
    source = checkpoint.card
    return ModelCard(
        model=task.model,
        config=dataclasses.replace(
            source.config,
            hidden_dropout_rate=recipe.dropout_rate,
            attention_dropout_rate=recipe.dropout_rate,
            has_pooler=source.config.has_pooler or MODELS[task.model].uses_pooler,
        ),
        lowercase=source.lowercase,
        max_length=task.max_length,
        text_columns=task.text_columns,
        labels=task.labels,
        problem_type=task.problem_type,
        task=task.settings(),
    )


def compiled(
    task: Task, model: keras.Model, recipe: FinetuneRecipe, *, num_steps: int
) -> keras.Model:
    """The part of the model that the task trains, ready for `fit` of so many steps."""
    trained = task.trained(model)
    schedule = LinearWarmupDecay(
        recipe.learning_rate,
        num_steps=num_steps,
        num_warmup_steps=int(recipe.warmup_rate * num_steps),
    )
    optimizer = BertAdamW(schedule, weight_decay_rate=recipe.weight_decay_rate)
    trained.compile(optimizer=optimizer, **task.compile_arguments())
    return trained


def new_parts(checkpoint: Checkpoint, card: ModelCard) -> set[str]:
    """The heads, but of a model of the same task and labels; the pooler where it is read and there
    is none yet.
    """
    found, source = set(map(part, checkpoint.tensors)), checkpoint.card
    told = ("name", "text_columns")
    same = (source.model, source.labels, *map(source.task.get, told)) == (
        card.model,
        card.labels,
        *map(card.task.get, told),
    )
    if not same:
        found -= set(HEADS[card.model])
    wanted = set(HEADS[card.model]) | ({"pooler"} if card.config.has_pooler else set())
    return wanted - found


def _refuse_too_few_segments(encoded: Encoded, card: ModelCard, pretrained) -> None:
    inputs, *_ = encoded.batch(encoded.lengths.argmax()[None])
    if inputs["segment_ids"].max() >= card.config.num_segments:
        raise InputError(
            f"a pair needs 2 segments and the encoder of {os.fspath(pretrained)} has "
            f"{card.config.num_segments}; take a task of one text, or begin from another checkpoint"
        )


def _place(path: str) -> str:
    return path if path.startswith("tfds:") else os.path.abspath(path)
