"""The paper's tables as data: arms, which are changes of recipes, columns, published scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import is_remote
from bert_keras.tasks.catalog import named_task


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A row: FIELD=VALUE changes of the pretraining's recipe and of every fine-tuning's.

    Arms of the same `pretraining` share one model, each as it is after a `share` of the steps.
    `published` are the paper's scores, a column each, and `perplexity` that of masked words; a
    figure has none.
    """

    name: str
    pretraining: tuple[str, ...] = ()
    share: float = 1.0
    finetuning: tuple[str, ...] = ()
    published: tuple[float, ...] = ()
    perplexity: float | None = None

    @property
    def pretraining_name(self) -> str:
        return slug(" ".join(change.partition("=")[2] for change in self.pretraining)) or "bert"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A task and which of its scores the paper tells; times `factor` it is in percent. `places` are
    where its files may be in the data folder.
    """

    name: str
    task: str
    score: str
    factor: float
    places: tuple[str, ...]

    def files(self, data: Path) -> dict[str, str]:
        """Of the first place that is there. Raises InputError where none is, or is not whole."""
        found = [data / place for place in self.places if (data / place).is_dir()]
        if not found:
            raise InputError(f"{data} has none of {', '.join(self.places)}")
        return named_task(self.task).files(found[0])


@dataclass(frozen=True, kw_only=True)
class Experiment:
    name: str
    title: str
    columns: tuple[Column, ...]
    arms: tuple[Arm, ...]

    def published(self, arm: Arm, column: Column) -> float | None:
        return arm.published[self.columns.index(column)] if arm.published else None

    def columns_in(self, data: str) -> tuple[dict[str, dict[str, str]], list[str]]:
        """By the name of each column whose files are there these files, and why others are not."""
        if is_remote(data) or not Path(data).is_dir():
            raise InputError(
                f"{data} is not a folder; expected one with corpus/*.txt and folders such as "
                f"{', '.join(column.places[0] for column in self.columns)}"
            )
        found, missing = {}, []
        for column in self.columns:
            try:
                found[column.name] = column.files(Path(data))
            except InputError as error:
                missing.append(f"{column.name} is left out: {error}")
        if not found:
            raise InputError(f"{data} holds no task of {self.title}: {'; '.join(missing)}")
        return found, missing


def slug(text: str) -> str:
    """A name as folders and files bear it."""
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def corpus_in(data: str) -> list[str]:
    files = sorted(map(str, Path(data).glob("corpus/*.txt")))
    if not files:
        raise InputError(f"{data} has no corpus/*.txt to pretrain on; put UTF-8 text there")
    return files


def _glue(folder: str, *, name: str = "") -> Column:
    return Column(
        name=name or folder,
        task=folder.lower().replace("-", ""),
        score="accuracy",
        factor=100,
        places=(f"glue/{folder}", folder),
    )


def _ner(name: str, task: str) -> Column:
    places = ("ner/conll2003", "ner/wnut17", "conll2003", "wnut17")
    return Column(name=name, task=task, score="f1", factor=1, places=places)


MNLI = _glue("MNLI", name="MNLI-m")
MRPC, SST_2 = _glue("MRPC"), _glue("SST-2")
SQUAD = Column(name="SQuAD", task="squad1", score="f1", factor=1, places=("squad",))
LEFT_TO_RIGHT = ("objective=left-to-right",)


def _policy(replacement: str, *published: float) -> Arm:
    changes = (f"replacement={replacement}",)
    return Arm(name=replacement.replace("-", "/"), pretraining=changes, published=published)


def _size(name: str, perplexity: float, *published: float) -> Arm:
    changes = (f"size={name}",)
    return Arm(name=name, pretraining=changes, perplexity=perplexity, published=published)


def _shares(name: str, pretraining: tuple[str, ...] = ()) -> list[Arm]:
    return [
        Arm(name=f"{name}, {share:.0%} of the steps", pretraining=pretraining, share=share)
        for share in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]


EXPERIMENTS = {
    "table5": Experiment(
        name="table5",
        title="Table 5: what the pretraining tasks give",
        columns=(MNLI, _glue("QNLI"), MRPC, SST_2, SQUAD),
        arms=(
            Arm(name="BERT", published=(84.4, 88.4, 86.7, 92.7, 88.5)),
            Arm(
                name="No NSP",
                pretraining=("objective=masked-lm",),
                published=(83.9, 84.9, 86.5, 92.6, 87.9),
            ),
            Arm(
                name="LTR & No NSP",
                pretraining=LEFT_TO_RIGHT,
                published=(82.1, 84.3, 77.5, 92.1, 77.8),
            ),
            Arm(
                name="+ BiLSTM",
                pretraining=LEFT_TO_RIGHT,
                finetuning=("num_lstm_layers=1",),
                published=(82.1, 84.1, 75.7, 91.6, 84.9),
            ),
        ),
    ),
    "table6": Experiment(
        name="table6",
        title="Table 6: what the size of the model gives",
        columns=(MNLI, MRPC, SST_2),
        arms=(
            _size("L-3_H-768_A-12", 5.84, 77.9, 79.8, 88.4),
            _size("L-6_H-768_A-3", 5.24, 80.6, 82.2, 90.7),
            _size("L-6_H-768_A-12", 4.68, 81.9, 84.8, 91.3),
            _size("L-12_H-768_A-12", 3.99, 84.4, 86.7, 92.9),
            _size("L-12_H-1024_A-16", 3.54, 85.7, 86.9, 93.3),
            _size("L-24_H-1024_A-16", 3.23, 86.6, 87.8, 93.7),
        ),
    ),
    "c1": Experiment(
        name="c1",
        title="Figure 5 (C.1): what more steps of pretraining give",
        columns=(MNLI,),
        arms=(*_shares("BERT"), *_shares("LTR & No NSP", LEFT_TO_RIGHT)),
    ),
    "c2": Experiment(
        name="c2",
        title="Table C.2: what stands in place of a piece to predict, [MASK]/same/random",
        columns=(MNLI, _ner("NER fine-tuned", "ner"), _ner("NER features", "ner-features")),
        arms=(
            _policy("80-10-10", 84.2, 95.4, 94.9),
            _policy("100-0-0", 84.3, 94.9, 94.0),
            _policy("80-0-20", 84.1, 95.2, 94.6),
            _policy("80-20-0", 84.4, 95.2, 94.7),
            _policy("0-20-80", 83.7, 94.8, 94.6),
            _policy("0-0-100", 83.6, 94.9, 94.6),
        ),
    ),
}


def one_of(known: dict, name: str, *, what: str):
    if name not in known:
        raise InputError(f"no {what} is called {name!r}; known: {', '.join(known)}")
    return known[name]


def arms_named(arms: Sequence[Arm]) -> dict[str, Arm]:
    """The first arm of each model that is pretrained."""
    named: dict[str, Arm] = {}
    for arm in arms:
        named.setdefault(arm.pretraining_name, arm)
    return named
