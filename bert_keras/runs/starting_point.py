"""Opens the checkpoint from which a run starts and checks that the run can use it."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bert_keras.checkpoints.checkpoint import TextCheckpoint, TrainingState
from bert_keras.checkpoints.formats import absolute_path, open_text_checkpoint
from bert_keras.checkpoints.pretrained import missing_parts
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check
from bert_keras.files import StrPath
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text.vocab import Vocabulary

if TYPE_CHECKING:
    from bert_keras.runs.objectives import PretrainingObjective


NSP_PARTS = {"pooler", "next_sentence"}  # a run that adds only these continues at its step


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """The checkpoint from which a pretraining starts."""

    path: str  # absolute
    checkpoint: TextCheckpoint
    config: BertConfig  # the checkpoint's configuration with the dropout rates of the recipe
    new: tuple[str, ...]  # parts that the checkpoint lacks and that get fresh weights
    state: TrainingState | None  # None if the checkpoint has none, or lacks more than NSP_PARTS

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
    path: StrPath,
    *,
    recipe: PretrainRecipe,
    objective: "PretrainingObjective",
    vocabulary: Vocabulary,
    max_length: int,
    lowercase: bool | None,
) -> StartingPoint:
    """Opens the checkpoint from which a pretraining starts.

    Raises:
        InputError: The checkpoint does not fit the records or the objective, or it has already
            trained as many steps as the recipe has.
    """
    checkpoint = open_text_checkpoint(path)
    metadata, config = checkpoint.metadata, checkpoint.metadata.config
    check_vocabulary(checkpoint, vocabulary, source=path, of="the records")
    found, most = f"the records have {max_length} positions", config.max_positions
    remedy = f"write records with max_length={most} or less (--max-length)"
    check(max_length <= most, f"{found}, but {path} has {most}; {remedy}")
    for name, actual, needed in (
        ("lowercase", metadata.lowercase, metadata.lowercase if lowercase is None else lowercase),
        ("is_causal", config.is_causal, objective.is_causal),
        ("num_lstm_layers", config.num_lstm_layers, 0),
    ):
        found = f"{path} has {name}={actual}, but the records and the objective {recipe.objective}"
        remedy = "choose another checkpoint, or write other records"
        check(actual == needed, f"{found} need {needed}; {remedy}")
    model = objective.model
    config = dataclasses.replace(
        config,
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        has_pooler=model.kind.reads_pooled_output or config.has_pooler,
    )
    metadata = dataclasses.replace(metadata, config=config)
    new = tuple(missing_parts(checkpoint, heads=model.kind.heads, metadata=metadata))
    start = StartingPoint(
        path=absolute_path(path),
        checkpoint=checkpoint,
        config=config,
        new=new,
        state=checkpoint.state if NSP_PARTS.issuperset(new) else None,
    )
    found = f"{path} has a training state of step {start.step:,}"
    remedy = "raise num_steps, or start from a checkpoint without training state"
    check(start.step < recipe.end, f"{found}, but the run ends at step {recipe.end:,}; {remedy}")
    return start


def check_vocabulary(
    checkpoint: TextCheckpoint, expected: Vocabulary, *, source: StrPath, of: str
) -> None:
    """Raises InputError if a checkpoint has another vocabulary; names the first other line."""
    actual = checkpoint.vocabulary
    if actual == expected:
        return
    pairs = zip(actual.tokens, expected.tokens, strict=False)
    differing = (line for line, (left, right) in enumerate(pairs, start=1) if left != right)
    line = next(differing, min(len(actual), len(expected)) + 1)
    where = f"in line {line} of {len(actual):,} and {len(expected):,}"
    where = "only in the rules of tokenizer.json" if actual.tokens == expected.tokens else where
    raise InputError(
        f"{source} has another vocabulary than {of}, which differs {where}; use the same vocabulary"
    )
