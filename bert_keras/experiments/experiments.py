"""Defines experiments as tables of scores: rows are changes of recipes, columns are tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bert_keras.downstream.catalog import named_task
from bert_keras.errors import InputError
from bert_keras.files import StrPath


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A row of a table. Arms with the same `pretraining` share one pretrained model."""

    name: str
    pretraining: tuple[str, ...] = ()  # FIELD=VALUE changes of the pretraining recipe
    finetuning: tuple[str, ...] = ()  # FIELD=VALUE changes of every task's fine-tuning recipe
    # The paper's scores in the first columns of the table, in their order; () if it has none
    published: tuple[float, ...] = ()

    @property
    def pretraining_name(self) -> str:
        """The name of the pretrained model, derived from the changed values."""
        return slug(" ".join(change.partition("=")[2] for change in self.pretraining)) or "bert"


@dataclass(frozen=True, kw_only=True)
class ScoreColumn:
    """A column of a table: one score of a task."""

    name: str
    task: str
    score: str  # the name of the score in the task's scores
    folders: tuple[str, ...]  # candidate folders for its files, relative to the data folder

    def files(self, data: Path) -> dict[str, str]:
        """Returns the files, as `Task.files` does, of the first of `folders` that exists."""
        existing = (data / folder for folder in self.folders if (data / folder).is_dir())
        return named_task(self.task).files(next(existing, data / self.folders[0]))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table of scores: a table of the paper, or `labels`."""

    name: str
    title: str
    columns: tuple[ScoreColumn, ...]
    arms: tuple[Arm, ...]

    def published(self, arm: Arm, column: ScoreColumn) -> float | None:
        """Returns the paper's score of a cell, or None if the paper has none."""
        return dict(zip(self.columns, arm.published, strict=False)).get(column)

    @property
    def models(self) -> dict[str, Arm]:
        """The models to pretrain: their name and the first arm that uses each."""
        models: dict[str, Arm] = {}
        for arm in self.arms:
            models.setdefault(arm.pretraining_name, arm)
        return models

    def inputs(self, data: StrPath) -> tuple[list[str], dict[str, dict[str, str]], list[str]]:
        """Returns the corpus, the files of each column, and a note for each column without files.

        Raises InputError if there is no corpus or no column has files.
        """
        folder, files, missing = Path(data), {}, []
        for column in self.columns:
            try:
                files[column.name] = column.files(folder)
            except InputError as error:
                missing.append(f"{column.name} is omitted: {error}")
        corpus = sorted(map(str, folder.glob("corpus/*.txt")))
        if not files or not corpus:
            missing = missing if corpus else ["corpus/*.txt is missing", *missing]
            raise InputError(f"{data} has no data for {self.title}: {'; '.join(missing)}")
        return corpus, files, missing


def slug(text: str) -> str:
    """Converts a name to lower case with hyphens, for names of folders and files."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _glue(folder: str, name: str = "") -> ScoreColumn:
    task, folders = folder.lower().replace("-", ""), (f"glue/{folder}", folder)
    return ScoreColumn(name=name or folder, task=task, score="accuracy", folders=folders)


def _arms(field: str, rows: Sequence[tuple[str, str, Sequence[float]]]) -> tuple[Arm, ...]:
    """Returns arms that change one field of the pretraining recipe, from (name, value, scores)."""
    return tuple(
        Arm(name=name, pretraining=(f"{field}={value}",) if value else (), published=tuple(scores))
        for name, value, scores in rows
    )


_MNLI, _MRPC, _SST_2 = _glue("MNLI", "MNLI-m"), _glue("MRPC"), _glue("SST-2")
_SQUAD = ScoreColumn(name="SQuAD", task="squad1", score="f1", folders=("squad",))
_CONLL = ("ner/conll2003", "ner/wnut17", "conll2003", "wnut17")
_NER = ScoreColumn(name="NER fine-tuned", task="ner", score="f1", folders=_CONLL)
_TAGS = replace(_NER, name="NER")
_POS = ScoreColumn(name="parts of speech", task="pos", score="accuracy", folders=("pos",))

_TABLE5 = _arms(
    "objective",
    [
        ("BERT", "", (84.4, 88.4, 86.7, 92.7, 88.5)),
        ("No NSP", "masked-lm", (83.9, 84.9, 86.5, 92.6, 87.9)),
        ("LTR & No NSP", "left-to-right", (82.1, 84.3, 77.5, 92.1, 77.8)),
        ("+ BiLSTM", "left-to-right", (82.1, 84.1, 75.7, 91.6, 84.9)),
    ],
)

_SIZES = [  # size, MNLI-m, MRPC, SST-2
    ("L-3_H-768_A-12", 77.9, 79.8, 88.4),
    ("L-6_H-768_A-3", 80.6, 82.2, 90.7),
    ("L-6_H-768_A-12", 81.9, 84.8, 91.3),
    ("L-12_H-768_A-12", 84.4, 86.7, 92.9),
    ("L-12_H-1024_A-16", 85.7, 86.9, 93.3),
    ("L-24_H-1024_A-16", 86.6, 87.8, 93.7),
]

_POLICIES = [  # percent [MASK]-same-random, MNLI-m, NER fine-tuned, NER features
    ("80-10-10", 84.2, 95.4, 94.9),
    ("100-0-0", 84.3, 94.9, 94.0),
    ("80-0-20", 84.1, 95.2, 94.6),
    ("80-20-0", 84.4, 95.2, 94.7),
    ("0-20-80", 83.7, 94.8, 94.6),
    ("0-0-100", 83.6, 94.9, 94.6),
]

_EPOCHS = {100: 60, 300: 30, 1_000: 15, 3_000: 8, 10_000: 5, 0: 3}  # number of examples -> epochs


def _labels(name: str, *changes: str) -> tuple[Arm, ...]:
    """Returns an arm for each number of training examples; 0 takes all."""
    return tuple(
        Arm(
            name=f"{name}, {f'{count:,}' if count else 'all'} examples",
            finetuning=(*changes, f"max_train_examples={count}", f"num_epochs={epochs}"),
        )
        for count, epochs in _EPOCHS.items()
    )


EXPERIMENTS = {
    "table5": Experiment(
        name="table5",
        title="Table 5: effect of the pretraining tasks",
        # The last two columns, which the paper lacks, read the state of each token by itself.
        columns=(_MNLI, _glue("QNLI"), _MRPC, _SST_2, _SQUAD, _TAGS, _POS),
        arms=(*_TABLE5[:3], replace(_TABLE5[3], finetuning=("num_lstm_layers=1",))),
    ),
    "table6": Experiment(
        name="table6",
        title="Table 6: effect of the model size",
        columns=(_MNLI, _MRPC, _SST_2),
        arms=_arms("size", [(size, size, scores) for size, *scores in _SIZES]),
    ),
    "c2": Experiment(
        name="c2",
        title="Table C.2: effect of the masking procedure, percent [MASK]/same/random",
        columns=(_MNLI, _NER, replace(_NER, name="NER features", task="ner-features")),
        arms=_arms(
            "replacement", [(rate.replace("-", "/"), rate, scores) for rate, *scores in _POLICIES]
        ),
    ),
    "labels": Experiment(
        name="labels",
        title="Scores by number of labelled examples, pretrained and from random weights",
        columns=(_SST_2, _MNLI, _glue("QNLI"), _TAGS, _POS),
        arms=(*_labels("pretrained"), *_labels("random", "initial_weights=random")),
    ),
}
