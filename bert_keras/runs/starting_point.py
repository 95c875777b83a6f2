"""Opens the checkpoint from which a run starts and checks that the run can use it."""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint, TrainingState, part
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.runs.objectives import Objective
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """The checkpoint from which a pretraining starts."""

    path: str  # absolute
    checkpoint: TextCheckpoint
    config: BertConfig  # the checkpoint's configuration with the dropout rates of the recipe
    new: tuple[str, ...]  # parts that the checkpoint lacks and that get fresh weights
    state: TrainingState | None  # None if the checkpoint has none, or if there are new parts

    @property
    def step(self) -> int:
        return self.state.step if self.state else 0

    def __str__(self) -> str:
        """Returns the rows that are appended to the table of a load report."""
        found, config = self.checkpoint.state, self.config
        training = "step 0: the checkpoint has no training state"
        if self.state:
            training = f"step {self.step:,}, with Adam's averages"
        elif found:
            lacking = ", ".join(self.new)
            training = f"step 0: that of the checkpoint, {found.step:,}, knows no {lacking}"
        size = f"{config.num_layers} layers, hidden size {config.hidden_size}"
        return f"{'size':<12}the checkpoint's, not the recipe's: {size}\n{'training':<12}{training}"


def open_start(path: str | os.PathLike) -> TextCheckpoint:
    """Opens a checkpoint with `open_text_checkpoint`.

    The error of `open_text_checkpoint` may name an option that only `bert-keras convert` has. In
    this case the error also names that command.
    """
    try:
        return open_text_checkpoint(path)
    except InputError as error:
        if not any(option in str(error) for option in ("--ignore", "--pad-vocabulary")):
            raise
        raise InputError(
            f"{error}; first run bert-keras convert {path} NEW_FOLDER with that option, then begin "
            "from NEW_FOLDER"
        ) from error


def starting_point(
    path: str | os.PathLike,
    *,
    recipe: PretrainRecipe,
    objective: Objective,
    vocabulary: Vocabulary,
    max_length: int,
    lowercase: bool | None,
) -> StartingPoint:
    """Opens the checkpoint from which a pretraining starts, and checks it against the run.

    Args:
        path: The folder of the checkpoint.
        recipe: The recipe of the run.
        objective: The objective of the run.
        vocabulary: The vocabulary of the records.
        max_length: The number of tokens in a record.
        lowercase: Whether the texts of the records are in lower case; None if unknown.

    Raises:
        InputError: `open_start` cannot open the checkpoint; its vocabulary or letter case is not
            that of the records; it has fewer positions than `max_length`; its attention direction
            is not that of the objective; or it has already trained as many steps as the recipe has.
    """
    checkpoint = open_start(path)
    card, config = checkpoint.card, checkpoint.card.config
    if checkpoint.vocabulary != vocabulary:
        raise InputError(
            f"{path} was trained with another vocabulary than the records "
            f"{difference(checkpoint.vocabulary, vocabulary)}; write the records with the "
            "checkpoint's"
        )
    if lowercase not in (None, card.lowercase):
        case = {True: "lower case", False: "cased"}
        raise InputError(
            f"the records are {case[bool(lowercase)]} and {path} is {case[card.lowercase]}; write "
            f"the records {'with' if lowercase else 'without'} --cased"
        )
    if max_length > config.max_positions:
        raise InputError(
            f"the records are of {max_length} tokens and {path} has {config.max_positions} "
            "positions; write shorter records"
        )
    if config.num_lstm_layers:
        raise InputError(
            f"{path} has a BiLSTM, which is for fine-tuning alone: it reads what is to be told; "
            "begin from the model that it was fine-tuned from"
        )
    if config.is_causal != objective.is_causal:
        directions = {False: "both ways", True: "from left to right"}
        raise InputError(
            f"{path} reads {directions[config.is_causal]} and the recipe, whose objective is "
            f"{recipe.objective}, {directions[objective.is_causal]}; give the objective that it "
            "was trained with, or another checkpoint"
        )
    architecture = objective.model.architecture
    config = dataclasses.replace(
        config,
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        has_pooler=architecture.reads_pooled_output or config.has_pooler,
    )
    new = tuple(missing_parts(checkpoint, heads=architecture.heads, config=config))
    start = StartingPoint(
        path=os.path.abspath(path),
        checkpoint=checkpoint,
        config=config,
        new=new,
        state=None if new else checkpoint.state,
    )
    if start.step >= recipe.end:
        raise InputError(
            f"{path} has trained {start.step:,} steps and the recipe, which counts them too, ends "
            f"with {recipe.end:,}; raise num_steps, or begin at step 0 from a checkpoint without "
            "training state"
        )
    return start


def missing_parts(checkpoint: Checkpoint, *, heads: Iterable[str], config: BertConfig) -> list[str]:
    """Returns the parts that a checkpoint lacks for a model with these heads and this config."""
    optional = {"pooler": config.has_pooler, "bilstm": config.num_lstm_layers}
    found = {*map(part, checkpoint.tensors)}
    wanted = [*heads, *(name for name, is_wanted in optional.items() if is_wanted)]
    return [name for name in wanted if name not in found]


def check_segments(
    segment_ids: np.ndarray, encoders: Mapping[str, BertConfig], *, file: str, otherwise: str
) -> None:
    """Checks that every encoder can read the segment ids of a file.

    Args:
        segment_ids: The segment ids, int [B, T].
        encoders: Encoder configurations by their name in the error message.
        file: The name of the file for the error message.
        otherwise: An alternative that the error message suggests.

    Raises:
        InputError: The file contains pairs, and an encoder has only one segment.
    """
    for name, config in encoders.items():
        if segment_ids.max() >= (config.num_segments or math.inf):
            raise InputError(
                f"{file} holds pairs, which need 2 segments, and {name} has {config.num_segments}; "
                f"take another, or {otherwise}"
            )


def difference(found: Vocabulary, expected: Vocabulary) -> str:
    """Describes the difference between two vocabularies in parentheses, for an error message."""
    if found.pieces == expected.pieces:
        return "(the same pieces and another tokenizer.json, which splits texts by other rules)"
    pairs = zip(found.pieces, expected.pieces, strict=False)
    differing = (line for line, (left, right) in enumerate(pairs, start=1) if left != right)
    line = next(differing, min(len(found), len(expected)) + 1)
    return f"(of {len(found):,} and {len(expected):,} pieces; line {line} is the first to differ)"
