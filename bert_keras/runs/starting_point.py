"""Opens the checkpoint from which a run starts and checks that the run can use it."""

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass

from bert_keras.checkpoints.checkpoint import Checkpoint, TextCheckpoint, TrainingState, part
from bert_keras.checkpoints.formats import absolute_path, open_text_checkpoint
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.runs.objectives import PretrainingObjective
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
        """The step of the training state, 0 without one."""
        return self.state.step if self.state else 0

    def __str__(self) -> str:
        """Returns the rows that are appended to the table of a load report."""
        stored, config = self.checkpoint.state, self.config
        training = "step 0: the checkpoint has no training state"
        if self.state:
            training = f"step {self.step:,}, with the state of the optimizer"
        elif stored:
            lacking = ", ".join(self.new)
            training = f"step 0: the training state of step {stored.step:,} lacks {lacking}"
        size = f"{config.num_layers} layers, hidden size {config.hidden_size}"
        return f"{'size':<12}that of the checkpoint: {size}\n{'training':<12}{training}"


def open_starting_point(
    path: str | os.PathLike,
    *,
    recipe: PretrainRecipe,
    objective: PretrainingObjective,
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
        InputError: the checkpoint cannot be opened; its vocabulary or letter case is not
            that of the records; it has fewer positions than `max_length`; its attention direction
            is not that of the objective; or it has already trained as many steps as the recipe has.
    """
    checkpoint = open_text_checkpoint(path)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    if checkpoint.vocabulary != vocabulary:
        raise InputError(
            f"{path} has another vocabulary than the records "
            f"{vocabulary_difference(checkpoint.vocabulary, vocabulary)}; write the records with "
            "the vocabulary of the checkpoint"
        )
    if lowercase not in (None, metadata.lowercase):
        case = {True: "lower case", False: "cased"}
        raise InputError(
            f"the records are {case[bool(lowercase)]}, but {path} is {case[metadata.lowercase]}; "
            f"write the records {'with' if lowercase else 'without'} --cased"
        )
    if max_length > config.max_positions:
        raise InputError(
            f"the records have {max_length} positions, but {path} has {config.max_positions}; "
            f"write the records with --max-length {config.max_positions} or less"
        )
    if config.num_lstm_layers:
        raise InputError(
            f"{path} has a BiLSTM, which would read the tokens that pretraining predicts; start "
            "from a checkpoint without one, such as the one that was fine-tuned"
        )
    if config.is_causal != objective.is_causal:
        kinds = {False: "bidirectional", True: "causal"}
        raise InputError(
            f"{path} has {kinds[config.is_causal]} attention, but the objective "
            f"{recipe.objective} needs {kinds[objective.is_causal]} attention; use the objective "
            "with which the checkpoint was trained, or another checkpoint"
        )
    model = objective.model
    config = dataclasses.replace(
        config,
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        has_pooler=model.reads_pooled_output or config.has_pooler,
    )
    new = tuple(missing_parts(checkpoint, heads=model.heads, config=config))
    start = StartingPoint(
        path=absolute_path(path),
        checkpoint=checkpoint,
        config=config,
        new=new,
        state=None if new else checkpoint.state,
    )
    if start.step >= recipe.end:
        raise InputError(
            f"{path} has a training state of step {start.step:,}, but the run ends at step "
            f"{recipe.end:,}; raise num_steps, or start from a checkpoint without training state"
        )
    return start


def missing_parts(checkpoint: Checkpoint, *, heads: Iterable[str], config: BertConfig) -> list[str]:
    """Returns the parts that a checkpoint lacks for a model with these heads and this config."""
    optional = {"pooler": config.has_pooler, "bilstm": config.num_lstm_layers}
    stored = {*map(part, checkpoint.tensors)}
    needed = [*heads, *(name for name, is_needed in optional.items() if is_needed)]
    return [name for name in needed if name not in stored]


def vocabulary_difference(actual: Vocabulary, expected: Vocabulary) -> str:
    """Describes the difference between two vocabularies in parentheses, for an error message."""
    if actual.tokens == expected.tokens:
        return "(the same tokens, but other rules in tokenizer.json)"
    pairs = zip(actual.tokens, expected.tokens, strict=False)
    differing = (line for line, (left, right) in enumerate(pairs, start=1) if left != right)
    line = next(differing, min(len(actual), len(expected)) + 1)
    return f"({len(actual):,} and {len(expected):,} tokens, which first differ in line {line})"
