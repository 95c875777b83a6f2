"""Writes the page of an evaluation: scores, tables of labels, and errors of each kind of task."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from scipy.stats import rankdata

from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.ner.tags import Sentence, entities
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.downstream.sentences.retrieval import QueryExample, relevant_passages
from bert_keras.downstream.sentences.task import score_name
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.swag import NUM_ENDINGS, SwagExample
from bert_keras.downstream.task import Task
from bert_keras.errors import counted
from bert_keras.files import StrPath, write_text
from bert_keras.reports.charts import scatter, svg
from bert_keras.reports.page import Cell, MarkedText, Report, Section, Table, Value, decimals

MAX_ERRORS = 200  # maximum number of errors on the page
MAX_LABELS = 30  # a larger confusion matrix is unreadable
MARGIN = 300  # characters shown before and after the answers in a context
ANSWER, NONE = "answer", "none"
Errors = list[tuple[float, Sequence[Value]]]  # (sort weight, values of a row)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The sections and errors that an evaluation page shows for a task."""

    sections: Sequence[Section]
    columns: Sequence[str]  # of the table of errors
    errors: Errors  # one value for each of `columns`
    order: str  # describes which errors come first


def evaluation_page(
    task: Task,
    examples: Sequence,
    predictions: Sequence,
    *,
    scores: Mapping[str, float],
    path: StrPath,
) -> None:
    """Writes the predictions and scores of a task as an HTML page.

    Scores with a space in their name, such as "person f1", stand in the table of types alone.
    """
    findings = FINDINGS[type(examples[0])](task, examples, predictions)
    errors = sorted(findings.errors, key=lambda error: -error[0])[:MAX_ERRORS]
    counts = f"{len(findings.errors):,} of {len(examples):,} predictions are wrong"
    listed = f", {len(errors)} of them are listed" if len(errors) < len(findings.errors) else ""
    rows = [cells for _, cells in errors]
    columns = range(len(findings.columns))
    used = [i for i in columns if not rows or any(row[i] is not None for row in rows)]
    table = Table([findings.columns[i] for i in used], [[row[i] for i in used] for row in rows])
    notes = [f"{counts}{listed}: {findings.order}."]
    scores = {name: value for name, value in scores.items() if " " not in name}
    num_decimals = 4 if all(abs(value) <= 1 for value in scores.values()) else 2
    texts = (f"{v:,}" if isinstance(v, int) else f"{v:,.{num_decimals}f}" for v in scores.values())
    report = Report(
        title=f"{task.name}: {counted(len(examples), 'example')}",
        tiles=[(name.replace("_", " "), text) for name, text in zip(scores, texts, strict=True)],
        sections=[*findings.sections, Section(heading="Errors", notes=notes, table=table)],
    )
    write_text(path, report.html())


def _text_findings(task, examples, predictions) -> Findings:
    """Returns the tables of a task with one label, several labels or a number for each text."""
    return {"one": _classes, "many": _sets, "number": _numbers}[task.kind](
        task, examples, predictions
    )


def _classes(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    sections = [_label_table("Labels", [({gold}, {predicted}) for gold, predicted in pairs])]
    # A file of predictions may have labels that are absent from the examples.
    labels = [*task.labels, *sorted({predicted for _, predicted in pairs} - {*task.labels})]
    if len(labels) <= MAX_LABELS:
        sections.insert(0, _confusion("Confusion", pairs, labels))
    errors: Errors = []
    for example, (predicted, probabilities) in zip(examples, predictions, strict=True):
        if example.label != predicted:
            most = max(map(float, probabilities), default=None)
            errors.append((most or 0.0, [*_shown(example), example.label, predicted, most]))
    return Findings(
        sections=sections,
        columns=["example", *task.text_columns, "gold", "predicted", "probability"],
        errors=errors,
        order=_error_order(errors),
    )


def _sets(task, examples, predictions) -> Findings:
    pairs = [(set(e.label), set(p.label)) for e, p in zip(examples, predictions, strict=True)]
    errors: Errors = []
    for example, (gold, predicted) in zip(examples, pairs, strict=True):
        if gold != predicted:
            parts = (gold & predicted, gold - predicted, predicted - gold)
            texts = [", ".join(sorted(labels)) for labels in parts]
            errors.append((len(gold ^ predicted), [*_shown(example), *texts]))
    return Findings(
        sections=[_label_table("Labels", pairs)],
        columns=["example", *task.text_columns, "correct", "missing", "wrong"],
        errors=errors,
        order="examples with the most wrong labels first",
    )


def _numbers(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    chart = svg(scatter("predicted", pairs, x_axis=f"gold {task.labels[0]}"))
    return Findings(
        sections=[Section(heading="Gold and predicted", charts={"numbers": chart})],
        columns=["example", *task.text_columns, "gold", "predicted", "difference"],
        errors=[
            (abs(p - g), [*_shown(example), *map(decimals, (g, p, p - g))])
            for example, (g, p) in zip(examples, pairs, strict=True)
            if p != g
        ],
        order="the largest differences first",
    )


def _choice_findings(task, examples, predictions) -> Findings:
    """Returns a confusion matrix of the ending numbers, and the examples with a wrong choice."""
    pairs = [(str(e.label), str(p.ending)) for e, p in zip(examples, predictions, strict=True)]
    errors: Errors = []
    for example, chosen in zip(examples, predictions, strict=True):
        if example.label == chosen.ending:
            continue
        kinds = {example.label: "good", chosen.ending: "bad"}
        notes = [f" {each:.2f}" for each in chosen.probabilities] or [""] * NUM_ENDINGS
        endings = [
            [MarkedText(ending, kinds.get(number, "")), MarkedText("", note=note)]
            for number, (ending, note) in enumerate(zip(example.endings, notes, strict=True))
        ]
        probability = chosen.probabilities[chosen.ending] if chosen.probabilities else None
        text = f"{example.context} {example.start}".strip()
        errors.append((probability or 0.0, [text, Cell(endings), probability]))
    return Findings(
        sections=[_confusion("Number of the ending", pairs, [str(n) for n in range(NUM_ENDINGS)])],
        columns=["context", "endings (green: correct, red: chosen)", "probability"],
        errors=errors,
        order=_error_order(errors),
    )


def _answer_findings(task, examples, predictions) -> Findings:
    """Returns the questions whose F1, or other score of a single question, is below 100.

    For SQuAD 2.0 the findings include a confusion matrix of answerable and unanswerable questions.
    """
    errors: Errors = []
    for question, prediction in zip(examples, predictions, strict=True):
        score = task.score([question], [prediction])[task.score_of_one]
        if score == 100.0:
            continue
        text = prediction.text if prediction else ""
        candidates = prediction.candidates if prediction else ()
        probability = next((each.probability for each in candidates if each.text == text), None)
        golds = list(dict.fromkeys(answer.text for answer in question.answers))
        cells = [
            Cell([[question.question], _marked_context(question, text)]),
            " / ".join(golds) or NONE,
            text or NONE,
            probability,
            decimals(score),
        ]
        errors.append(((100.0 - score) * (1.0 if probability is None else probability), cells))
    pairs = [
        (ANSWER if q.answers else NONE, ANSWER if p and p.text else NONE)
        for q, p in zip(examples, predictions, strict=True)
    ]
    matrix = [_confusion("Answer or none", pairs, [ANSWER, NONE])]
    title = task.score_of_one.replace("_", "-").upper()
    return Findings(
        sections=matrix if task.allows_no_answer else [],
        columns=["question and context", "gold", "predicted", "probability", title],
        errors=errors,
        order="the largest and most probable errors first; gold answers are green, predicted "
        "answers are red, and text in both is violet",
    )


def _marked_context(question: Question, predicted: str) -> list[MarkedText | str]:
    """Returns the context around the gold and the predicted answer, with both answers marked."""
    context, kinds = question.context, {}
    golds = {(answer.start, answer.start + len(answer.text)) for answer in question.answers}
    for start, end in golds:
        kinds |= dict.fromkeys(range(max(0, start), min(end, len(context))), "good")
    gold = min(golds, default=(0, 0))[0]
    found = {context.find(predicted, gold), context.rfind(predicted, 0, gold + len(predicted))}
    starts = [start for start in found if predicted and start >= 0]
    for start in sorted(starts, key=lambda start: abs(start - gold))[:1]:
        for position in range(start, start + len(predicted)):
            kinds[position] = "both" if position in kinds else "bad"
    first = max(0, min(kinds, default=0) - MARGIN)
    last = min(len(context), max(kinds, default=0) + MARGIN)
    edges = [i for i in range(first + 1, last) if kinds.get(i) != kinds.get(i - 1)]
    parts = [
        MarkedText(context[start:end], kinds.get(start, ""))
        for start, end in itertools.pairwise([first, *edges, last])
    ]
    return ["… " if first else "", *parts, " …" if last < len(context) else ""]


def _entity_findings(task, examples, predictions) -> Findings:
    """Returns the scores of entity types, a confusion matrix of types, and wrong sentences."""
    sets, pairs = [], []
    errors: Errors = []
    for sentence, tags in zip(examples, predictions, strict=True):
        gold, predicted = set(entities(sentence.tags or ())), set(entities(tags))
        sets.append((gold, predicted))
        kinds = [{entity[:2]: entity[2] for entity in found} for found in (gold, predicted)]
        pairs += [tuple(each.get(span, NONE) for each in kinds) for span in kinds[0] | kinds[1]]
        if gold != predicted:
            cells = [
                _small(f"line {sentence.line}"),
                _marked_entities(sentence, gold, predicted, separator=task.word_separator),
                _marked_entities(sentence, predicted, gold, separator=task.word_separator),
            ]
            errors.append((len(gold ^ predicted), cells))
    kinds = sorted({kind for pair in pairs for kind in pair} - {NONE})
    return Findings(
        sections=[
            _label_table("Types", sets, label=itemgetter(2)),
            _confusion("Types of entities with the same words", pairs, [*kinds, NONE]),
        ],
        columns=["sentence", "gold", "predicted"],
        errors=errors,
        order="sentences with the most wrong entities first; correct entities are green",
    )


def _marked_entities(sentence: Sentence, shown: set, correct: set, *, separator: str) -> Cell:
    starts = {start: (end, kind) for start, end, kind in shown}
    line: list[MarkedText | str] = []
    position = 0
    while position < len(sentence.words):
        end, kind = starts.get(position, (position + 1, ""))
        text = separator.join(sentence.words[position:end])
        if kind:
            mark = "good" if (position, end, kind) in correct else "bad"
            line += [MarkedText(f"{text} ", mark, note=kind), separator]
        else:
            line.append(f"{text}{separator}")
        position = end
    return Cell([line])


def _pair_findings(task, examples, predictions) -> Findings:
    """Returns a chart of the ranks by score and by cosine, and the pairs whose ranks differ."""
    scores, cosines = [e.score for e in examples], [p.value for p in predictions]
    ranks = list(zip(rankdata(scores).tolist(), rankdata(cosines).tolist(), strict=True))
    chart = svg(scatter("rank by cosine", ranks, x_axis="rank by score"))
    errors: Errors = [
        (abs(second - first), [*_shown(e), *map(decimals, (e.score, cosine, first, second))])
        for e, cosine, (first, second) in zip(examples, cosines, ranks, strict=True)
        if first != second
    ]
    return Findings(
        sections=[
            *_by_size(task, examples, predictions),
            Section(heading="Ranks by score and by cosine", charts={"ranks": chart}),
        ],
        columns=["example", *task.text_columns, "score", "cosine", "rank", "rank by cosine"],
        errors=errors,
        order="the largest differences of the two ranks first",
    )


def _retrieval_findings(task, examples, predictions) -> Findings:
    """Returns the queries whose first passage is not relevant."""
    relevant = relevant_passages(examples)
    errors: Errors = []
    for example, prediction in zip(examples, predictions, strict=True):
        passages, cosines = prediction.value.passages, prediction.value.cosines
        # Predictions for queries without a positive have no cosine of it.
        cosine = next(iter(prediction.value.example_cosines), None)
        wanted = relevant[example.query]
        if passages[0] in wanted:
            continue
        ranks = [rank for rank, passage in enumerate(passages, start=1) if passage in wanted]
        shown = [(passages[0], "bad", cosines[0]), (example.passages[0], "good", cosine)]
        cells = [
            Cell([[MarkedText(text, kind), "" if c is None else MarkedText("", note=f" {c:.3f}")]])
            for text, kind, c in shown
        ]
        rank = str(ranks[0]) if ranks else f"after {len(passages)}"
        weight = 0.0 if cosine is None else cosines[0] - cosine
        errors.append((weight, [example.query, *cells, rank]))
    return Findings(
        sections=_by_size(task, examples, predictions),
        columns=["query", "first passage", "relevant passage", "rank of a relevant passage"],
        errors=errors,
        order="the largest differences of the two cosines first",
    )


def _by_size(task, examples, predictions) -> list[Section]:
    """Returns a table of the scores by the size of the embeddings, if there are several sizes."""
    scores, sizes = task.score(examples, predictions), [*predictions[0].smaller]
    if not sizes:
        return []
    names = [name for name in scores if not name.endswith(tuple(score_name("", s) for s in sizes))]
    rows = [["complete", *map(scores.get, names)]]
    rows += [[f"{size:,}", *(scores[score_name(n, size)] for n in names)] for size in sizes]
    table = Table(["components", *(name.replace("_", " ") for name in names)], rows)
    return [Section(heading="Size of the embeddings", table=table)]


# Type of the examples -> function; tasks with the same type of examples have the same tables.
FINDINGS: dict[type, Callable[..., Findings]] = {
    TextExample: _text_findings,
    SwagExample: _choice_findings,
    Question: _answer_findings,
    Sentence: _entity_findings,
    SentencePair: _pair_findings,
    QueryExample: _retrieval_findings,
}


def _confusion(heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Section:
    """Returns a matrix with gold labels as rows and predicted labels as columns."""
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    rows = []
    for label in labels:
        row: list[Value] = [Cell([[label]], kind="header")]
        for other in labels:
            count = counts[label, other]
            fraction = count / gold[label] if count else 0.0
            text = MarkedText(f"{count:,} ", note=f"{fraction:.1%}" if count else "")
            kind = "number right" if label == other else "number"
            row.append(Cell([[text]], kind=kind, heat=0.45 * fraction))
        rows.append([*row, gold[label]])
    return Section(heading=heading, table=Table(["gold ↓ predicted →", *labels, "all"], rows))


def _label_table(
    heading: str, pairs: Sequence[tuple[set, set]], *, label: Callable[[Any], str] = str
) -> Section:
    """Returns precision, recall and F1 of each label of pairs of gold and predicted items."""
    gold, predicted, correct = Counter(), Counter(), Counter()
    for gold_items, predicted_items in pairs:
        gold.update(map(label, gold_items))
        predicted.update(map(label, predicted_items))
        correct.update(map(label, gold_items & predicted_items))
    rows = []
    for name in sorted({*gold, *predicted}):
        counts = predicted[name], gold[name]
        rates = [correct[name] / count if count else None for count in counts]
        rows.append([name, *rates, 2 * correct[name] / sum(counts), gold[name], predicted[name]])
    header = ["label", "precision", "recall", "F1", "gold", "predicted"]
    return Section(heading=heading, table=Table(header, rows))


def _error_order(errors: Errors) -> str:
    """Describes the order of errors whose last cell is a probability."""
    if any(cells[-1] is not None for _, cells in errors):
        return "the most probable predictions first"
    return "in the order of the examples"


def _shown(example: TextExample | SentencePair) -> list[Value]:
    """Returns the line number of an example and its texts."""
    return [_small(example.location.rpartition(", ")[2]), *example.texts]


def _small(note: str) -> Cell:
    return Cell([[MarkedText("", note=note)]])
