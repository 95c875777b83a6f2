"""Opens the checkpoint that a run begins from and checks that the run can use it."""

import dataclasses
import os
from dataclasses import dataclass

from bert_keras.checkpoints.checkpoint import TextCheckpoint, TrainingState, part
from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text.vocab import Vocabulary


@dataclass(frozen=True, kw_only=True)
class StartingPoint:
    """`new` are the parts that the checkpoint lacks: they begin with fresh weights, and training
    begins anew then, without `state`.
    """

    path: str
    checkpoint: TextCheckpoint
    config: BertConfig
    new: tuple[str, ...]
    state: TrainingState | None

    @property
    def step(self) -> int:
        return self.state.step if self.state else 0

    def __str__(self) -> str:
        """The rows for a load report's table."""
        found, config = self.checkpoint.state, self.config
        told = "step 0: the checkpoint has no training state"
        if self.state:
            told = f"step {self.step:,}, with Adam's averages"
        elif found:
            told = f"step 0: that of the checkpoint, {found.step:,}, knows no {', '.join(self.new)}"
        size = f"{config.num_layers} layers, hidden size {config.hidden_size}"
        return f"{'size':<12}the checkpoint's, not the recipe's: {size}\n{'training':<12}{told}"


def open_start(path: str | os.PathLike) -> TextCheckpoint:
    """As `open_text_checkpoint`; what it says of options that no run takes names the verb that
    does.
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
    vocabulary: Vocabulary,
    max_length: int,
    has_labels: bool,
    lowercase: bool | None,
) -> StartingPoint:
    """Its config is the checkpoint's with the dropout rates of the recipe.

    Raises InputError where the checkpoint is not of the `vocabulary` and the casing (None: not
    known) of the records, or too short for them, or has trained as long as the recipe says, and as
    `open_start` does.
    """
    checkpoint = open_start(path)
    _refuse_other_vocabulary(path, checkpoint.vocabulary, vocabulary)
    if lowercase not in (None, checkpoint.card.lowercase):
        theirs, ours, option = ("lower case", "cased", "with")
        if not lowercase:
            theirs, ours, option = ("cased", "lower case", "without")
        raise InputError(
            f"the records are {theirs} and {path} is {ours}; write the records {option} --cased"
        )
    positions = checkpoint.card.config.max_positions
    if max_length > positions:
        raise InputError(
            f"the records are of {max_length} tokens and {path} has {positions} positions; "
            "write shorter records"
        )
    if checkpoint.card.config.num_lstm_layers:
        raise InputError(
            f"{path} has a BiLSTM, which is for fine-tuning alone: it reads what is to be told; "
            "begin from the model that it was fine-tuned from"
        )
    if checkpoint.card.config.is_causal != recipe.is_causal:
        told = "both ways", "from left to right"
        raise InputError(
            f"{path} reads {told[not recipe.is_causal]} and the recipe, whose objective is "
            f"{recipe.objective}, {told[recipe.is_causal]}; give the objective that it was "
            "trained with, or another checkpoint"
        )
    config = dataclasses.replace(
        checkpoint.card.config,
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        has_pooler=has_labels or checkpoint.card.config.has_pooler,
    )
    wanted = ("masked_lm", "next_sentence", "pooler") if has_labels else ("masked_lm",)
    found = set(map(part, checkpoint.tensors))
    new = tuple(name for name in wanted if name not in found)
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


def _refuse_other_vocabulary(
    path: str | os.PathLike, checkpoints: Vocabulary, records: Vocabulary
) -> None:
    if checkpoints == records:
        return
    if checkpoints.pieces == records.pieces:
        raise InputError(
            f"{path} has the records' pieces and another tokenizer.json, which reads texts by "
            "other rules; write the records with the checkpoint's"
        )
    raise InputError(
        f"{path} was trained with another vocabulary than the records "
        f"{difference(checkpoints, records)}; write the records with the checkpoint's"
    )


def difference(a: Vocabulary, b: Vocabulary) -> str:
    """Of two vocabularies, for a message."""
    pairs = zip(a.pieces, b.pieces, strict=False)
    differing = (line for line, (left, right) in enumerate(pairs, start=1) if left != right)
    line = next(differing, min(len(a), len(b)) + 1)
    return f"(of {len(a):,} and {len(b):,} pieces; line {line} is the first to differ)"
