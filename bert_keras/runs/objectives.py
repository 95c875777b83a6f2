"""Lists the pretraining objectives. A row says all in which they differ."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

    from bert_keras.data.objectives import Examples
    from bert_keras.models.task_models import TaskModel


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a pretraining learns, from which records, and how it is scored."""

    examples: "Examples"  # how records become inputs, targets and weights
    model: "type[TaskModel]"  # made of a BertConfig; returns a dict of outputs
    losses: "Callable[[], dict[str, keras.losses.Loss]]"  # of `compile`, by output
    metrics: "Callable[[], dict[str, list[keras.metrics.Metric]]]"  # of `compile`, by output
    # Scores of models without context: of the data set of training, that of evaluation and
    # `vocab_size`. None where nothing is comparable.
    baselines: Callable[..., dict[str, float]] | None = None
    is_causal: bool = False  # whether each token attends to earlier tokens only
    without_labels: str = ""  # the objective of records without labels, if this one needs labels


# Name in recipes -> "module:row", imported when it is used: recipes are made without Keras.
OBJECTIVES: dict[str, str | Objective] = {
    "bert": "bert_keras.runs.token_objectives:BERT",
    "masked-lm": "bert_keras.runs.token_objectives:MASKED_LM",
    "left-to-right": "bert_keras.runs.token_objectives:LEFT_TO_RIGHT",
}


def named_objective(name: str, *, has_labels: bool = True) -> Objective:
    """Returns the objective of a recipe for records that have labels or not."""
    row = OBJECTIVES[name]
    if isinstance(row, str):
        module, _, attribute = row.partition(":")
        row = getattr(import_module(module), attribute)
    if row.without_labels and not has_labels:
        return named_objective(row.without_labels)
    return row
