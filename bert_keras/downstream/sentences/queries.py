"""The examples and predictions of the task `retrieval`, and its file of predictions."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, text_lines, write_text


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A query with a relevant passage and passages that are not relevant."""

    query: str
    passages: tuple[str, ...]  # the positive, then the negatives; () if the row has no positive
    margins: tuple[float, ...] = ()  # of a teacher: score of the positive - score of each negative
    location: str = field(default="", compare=False)  # where it was read, as "FILE, line N"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nearest passages of a query."""

    passages: tuple[str, ...]  # the nearest first
    cosines: tuple[float, ...]  # of `passages`
    example_cosines: tuple[float, ...]  # of the `passages` of the example


@dataclass(frozen=True, slots=True)
class RetrievedPassages:
    """The prediction for an example."""

    ranking: Ranking
    smaller: dict[int, Ranking] = field(default_factory=dict)  # of embeddings cut to that size


def write_rankings(
    path: StrPath, examples: Sequence[QueryExample], rankings: Sequence[Ranking]
) -> None:
    """Writes a JSON object for each example: the query and the fields of its ranking."""
    rows = [
        {"query": example.query, **dataclasses.asdict(ranking)}
        for example, ranking in zip(examples, rankings, strict=True)
    ]
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_rankings(path: StrPath, examples: Sequence[QueryExample]) -> list[Ranking]:
    """Reads a file that `write_rankings` writes.

    Raises:
        InputError: The file does not belong to these examples.
    """
    lines = list(text_lines(path))
    if len(lines) != len(examples):
        raise InputError(
            f"{path} has {counted(len(lines), 'prediction')}; expected {len(examples)}, one for "
            "each example in the same order"
        )
    names = [each.name for each in dataclasses.fields(Ranking)]
    rankings = []
    for number, (line, example) in enumerate(zip(lines, examples, strict=True), start=1):
        try:
            row = json.loads(line)
            query, ranking = row["query"], _ranking(*(row[name] for name in names))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number} is {line[:60]!r}; expected an object with query, "
                f"{', '.join(names)}"
            ) from error
        if query != example.query:
            raise InputError(
                f"{path}, line {number} has the query {query!r}; expected {example.query!r}, that "
                f"of {example.location}"
            )
        rankings.append(ranking)
    return rankings


def _ranking(passages: list, cosines: list, example_cosines: list) -> Ranking:
    """Returns the ranking of these values; raises ValueError or TypeError if they are none."""
    if not 0 < len(passages) == len(cosines) or not all(isinstance(p, str) for p in passages):
        raise ValueError("expected texts with a cosine each")
    return Ranking(tuple(passages), *(tuple(map(float, c)) for c in (cosines, example_cosines)))


def relevant_passages(examples: Sequence[QueryExample]) -> dict[str, set[str]]:
    """Returns the positives of each distinct query."""
    relevant: dict[str, set[str]] = {}
    for each in examples:
        relevant.setdefault(each.query, set()).add(each.passages[0])
    return relevant
