"""Writes the page of an evaluation: scores, tables of labels, and errors of each kind of task."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from markupsafe import Markup
from scipy.stats import rankdata

from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.minimal_pairs import MinimalPair, pair_scores
from bert_keras.downstream.ner.tags import Sentence, entities
from bert_keras.downstream.sentences.pairs import SentencePair
from bert_keras.downstream.sentences.retrieval import QueryExample, relevant_passages
from bert_keras.downstream.squad.questions import Question
from bert_keras.downstream.swag import NUM_ENDINGS, SwagExample
from bert_keras.downstream.task import Task
from bert_keras.errors import counted
from bert_keras.files import StrPath, write_text
from bert_keras.reports.page import Report, Section, Table, Value, mark

MAX_ERRORS = 200  # maximum number of errors on the page
MAX_LABELS = 30  # a larger confusion matrix is unreadable
MARGIN = 300  # characters shown before and after the answers in a context
ANSWER, NONE = "answer", "none"
BY_PROBABILITY = "the most probable predictions first"


class Findings(NamedTuple):
    """What an evaluation page shows for a task."""

    sections: list[Section]
    columns: Sequence[str]  # of the table of errors
    errors: Sequence[tuple[float, Sequence[Value]]]  # sort weight, a value for each of `columns`
    order: str  # describes which errors come first


def evaluation_page(
    task: Task | str,
    examples: Sequence,
    predictions: Sequence,
    *,
    scores: Mapping[str, float],
    path: StrPath,
) -> None:
    """Writes an HTML page; scores such as "person f1" stand in the table of types alone.

    A task of `evaluate` alone is given by its name.
    """
    findings = FINDINGS[type(examples[0])](task, examples, predictions)
    errors = sorted(findings.errors, key=lambda error: -error[0])[:MAX_ERRORS]
    counts = f"{len(findings.errors):,} of {len(examples):,} predictions are wrong"
    listed = f", {len(errors)} of them are listed" if len(errors) < len(findings.errors) else ""
    table = Table(findings.columns, [cells for _, cells in errors])
    notes = [f"{counts}{listed}: {findings.order}."]
    scores = {name: value for name, value in scores.items() if " " not in name}
    num_decimals = 4 if all(abs(value) <= 1 for value in scores.values()) else 2
    texts = (f"{v:,}" if isinstance(v, int) else f"{v:,.{num_decimals}f}" for v in scores.values())
    report = Report(
        title=f"{getattr(task, 'name', task)}: {counted(len(examples), 'example')}",
        tiles=[(name.replace("_", " "), text) for name, text in zip(scores, texts, strict=True)],
        sections=[*findings.sections, Section(heading="Errors", notes=notes, table=table)],
    )
    write_text(path, report.html())


def _text_findings(task, examples, predictions) -> Findings:
    """Returns the tables of a task with one label, several labels or a number for each text."""
    find = {"one": _classes, "many": _sets, "number": _numbers}[task.kind]
    return find(task, examples, predictions)


def _classes(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    sections = [_label_table("Labels", [({gold}, {predicted}) for gold, predicted in pairs])]
    if len(task.labels) <= MAX_LABELS:
        sections.insert(0, _confusion("Confusion", pairs, task.labels))
    errors = []
    for example, (predicted, probabilities) in zip(examples, predictions, strict=True):
        if example.label != predicted:
            most = float(max(probabilities))
            errors.append((most, [*_shown(example), example.label, predicted, most]))
    columns = ["example", *task.text_columns, "gold", "predicted", "probability"]
    return Findings(sections, columns, errors, BY_PROBABILITY)


def _sets(task, examples, predictions) -> Findings:
    pairs = [(set(e.label), set(p.label)) for e, p in zip(examples, predictions, strict=True)]
    errors = []
    for example, (gold, predicted) in zip(examples, pairs, strict=True):
        parts = (gold & predicted, gold - predicted, predicted - gold)
        texts = [", ".join(sorted(labels)) for labels in parts]
        if gold != predicted:
            errors.append((len(gold ^ predicted), [*_shown(example), *texts]))
    columns = ["example", *task.text_columns, "correct", "missing", "wrong"]
    return Findings([_label_table("Labels", pairs)], columns, errors, "the most wrong labels first")


def _numbers(task, examples, predictions) -> Findings:
    pairs = [(e.label, p.label) for e, p in zip(examples, predictions, strict=True)]
    errors = [
        (abs(p - g), [*_shown(example), *_decimals(g, p, p - g)])
        for example, (g, p) in zip(examples, pairs, strict=True)
        if p != g
    ]
    columns = ["example", *task.text_columns, "gold", "predicted", "difference"]
    return Findings([], columns, errors, "the largest differences first")


def _choice_findings(task, examples, predictions) -> Findings:
    """Returns a confusion matrix of the ending numbers, and the examples with a wrong choice."""
    pairs = [(str(e.label), str(p.ending)) for e, p in zip(examples, predictions, strict=True)]
    errors = []
    for example, chosen in zip(examples, predictions, strict=True):
        if example.label == chosen.ending:
            continue
        kinds = {example.label: "good", chosen.ending: "bad"}
        notes = [f"{each:.2f}" for each in chosen.probabilities]
        endings = (
            Markup("<div>{} {}</div>").format(mark(text, kinds.get(i, "")), mark("", note=note))
            for i, (text, note) in enumerate(zip(example.endings, notes, strict=True))
        )
        probability = chosen.probabilities[chosen.ending]
        text = f"{example.context} {example.start}".strip()
        errors.append((probability, [text, Markup("").join(endings), probability]))
    matrix = _confusion("Number of the ending", pairs, [str(n) for n in range(NUM_ENDINGS)])
    columns = ["context", "endings (green: correct, red: chosen)", "probability"]
    return Findings([matrix], columns, errors, BY_PROBABILITY)


def _answer_findings(task, examples, predictions) -> Findings:
    """Returns questions with a score below 1, and of SQuAD 2.0 a matrix of "no answer"."""
    errors, pairs = [], []
    for question, prediction in zip(examples, predictions, strict=True):
        score = task.score([question], [prediction])[task.score_of_one]
        text = prediction.text
        pairs.append((ANSWER if question.answers else NONE, ANSWER if text else NONE))
        if score == 1.0:
            continue
        probability = next(each.probability for each in prediction.candidates if each.text == text)
        golds = list(dict.fromkeys(answer.text for answer in question.answers))
        context = Markup("{}<br>{}").format(question.question, _marked_context(question, text))
        cells = [context, " / ".join(golds) or NONE, text or NONE, probability, f"{score:.2f}"]
        errors.append(((1.0 - score) * probability, cells))
    matrix = [_confusion("Answer or none", pairs, [ANSWER, NONE])] if task.allows_no_answer else []
    title = task.score_of_one.replace("_", "-").upper()
    columns = ["question and context", "gold", "predicted", "probability", title]
    order = (
        "the largest and most probable errors first; gold answers are green, predicted answers are "
        "red, and text in both is violet"
    )
    return Findings(matrix, columns, errors, order)


def _marked_context(question: Question, predicted: str) -> Markup:
    """Returns the context around the gold answers, with them and the predicted answer marked."""
    context, kinds = question.context, {}
    golds = [range(each.start, each.start + len(each.text)) for each in question.answers]
    kinds |= dict.fromkeys((i for gold in golds for i in gold if 0 <= i < len(context)), "good")
    found = [each.start() for each in re.finditer(re.escape(predicted), context) if predicted]
    gold = golds[0].start if golds else 0
    for start in sorted(found, key=lambda start: abs(start - gold))[:1]:
        for position in range(start, start + len(predicted)):
            kinds[position] = "both" if position in kinds else "bad"
    first = max(0, min(kinds, default=0) - MARGIN)
    last = min(len(context), max(kinds, default=0) + MARGIN)
    edges = [i for i in range(first + 1, last) if kinds.get(i) != kinds.get(i - 1)]
    parts = (
        mark(context[start:end], kinds.get(start, ""))
        for start, end in itertools.pairwise([first, *edges, last])
    )
    text = Markup("").join(parts)
    return Markup("{}{}{}").format("… " * bool(first), text, " …" * (last < len(context)))


def _entity_findings(task, examples, predictions) -> Findings:
    """Returns the scores of entity types, a confusion matrix of types, and wrong sentences."""
    sets, pairs, errors = [], [], []
    for sentence, tags in zip(examples, predictions, strict=True):
        gold, predicted = set(entities(sentence.tags or ())), set(entities(tags))
        sets.append((gold, predicted))
        kinds = [{entity[:2]: entity[2] for entity in found} for found in (gold, predicted)]
        pairs += [tuple(each.get(span, NONE) for each in kinds) for span in kinds[0] | kinds[1]]
        if gold != predicted:
            cells = [mark("", note=f"line {sentence.line}")]
            for shown, correct in ((gold, predicted), (predicted, gold)):
                cells.append(_marked_entities(sentence, shown, correct, task.word_separator))
            errors.append((len(gold ^ predicted), cells))
    kinds = sorted({kind for pair in pairs for kind in pair} - {NONE})
    sections = [
        _label_table("Types", sets, label=itemgetter(2)),
        _confusion("Types of entities with the same words", pairs, [*kinds, NONE]),
    ]
    order = "sentences with the most wrong entities first; correct entities are green"
    return Findings(sections, ["sentence", "gold", "predicted"], errors, order)


def _marked_entities(sentence: Sentence, shown: set, correct: set, separator: str) -> Markup:
    starts = {start: (end, kind) for start, end, kind in shown}
    parts, position = [], 0
    while position < len(sentence.words):
        end, kind = starts.get(position, (position + 1, ""))
        color = "good" if (position, end, kind) in correct else "bad"
        text = separator.join(sentence.words[position:end])
        parts.append(mark(f"{text} ", color, note=kind) if kind else mark(text))
        position = end
    return Markup(separator).join(parts)


def _pair_findings(task, examples, predictions) -> Findings:
    """Returns the pairs whose ranks by score and by cosine differ."""
    scores = [each.score for each in examples]
    ranks = list(zip(rankdata(scores).tolist(), rankdata(predictions).tolist(), strict=True))
    errors = [
        (abs(second - first), [*_shown(e), *_decimals(e.score, cosine, first, second)])
        for e, cosine, (first, second) in zip(examples, predictions, ranks, strict=True)
        if first != second
    ]
    columns = ["example", *task.text_columns, "score", "cosine", "rank", "rank by cosine"]
    return Findings([], columns, errors, "the largest differences of the two ranks first")


def _retrieval_findings(task, examples, predictions) -> Findings:
    """Returns the queries whose first passage is not relevant."""
    relevant, errors = relevant_passages(examples), []
    for example, prediction in zip(examples, predictions, strict=True):
        passages, cosines = prediction.passages, prediction.cosines
        wanted = relevant[example.query]
        if passages[0] in wanted:
            continue
        ranks = [rank for rank, passage in enumerate(passages, start=1) if passage in wanted]
        rank = str(ranks[0]) if ranks else f"after {len(passages)}"
        cosine = prediction.example_cosines[0]
        cells = [
            example.query,
            mark(passages[0], "bad") + mark("", note=f" {cosines[0]:.3f}"),
            mark(example.passages[0], "good") + mark("", note=f" {cosine:.3f}"),
            rank,
        ]
        errors.append((cosines[0] - cosine, cells))
    columns = ["query", "first passage", "relevant passage", "rank of a relevant passage"]
    return Findings([], columns, errors, "the largest differences of the two cosines first")


def _minimal_pair_findings(task, examples, predictions) -> Findings:
    """Returns the accuracy of each group, and the pairs with the wrong order."""
    tables: dict[str, list] = {}
    for name, value in pair_scores(examples, predictions).items():
        kind, _, group = name.partition(" ")
        tables.setdefault(kind, []).append([group, value])
    sections = [
        Section(heading=kind.title(), table=Table([kind, "accuracy"], rows))
        for kind, rows in tables.items()
        if kind != "accuracy"
    ]
    errors = [
        (-difference, [pair.groups["paradigm"], *_shown(pair), f"{difference:.2f}"])
        for pair, difference in zip(examples, predictions, strict=True)
        if difference <= 0
    ]
    columns = ["paradigm", "example", "acceptable", "not acceptable", "difference"]
    return Findings(sections, columns, errors, "the smallest differences of log-likelihoods first")


# Type of the examples -> function; tasks with the same type of examples have the same tables.
FINDINGS: dict[type, Callable[..., Findings]] = {
    TextExample: _text_findings,
    SwagExample: _choice_findings,
    Question: _answer_findings,
    Sentence: _entity_findings,
    SentencePair: _pair_findings,
    QueryExample: _retrieval_findings,
    MinimalPair: _minimal_pair_findings,
}


def _confusion(heading: str, pairs: Sequence[tuple[str, str]], labels: Sequence[str]) -> Section:
    """Returns a matrix with gold labels as rows and predicted labels as columns."""
    counts, gold = Counter(pairs), Counter(label for label, _ in pairs)
    form = Markup('<div class="heat {}" style="--share: {:.3f}">{:,} {}</div>')
    rows = []
    for label in labels:
        row: list[Value] = [Markup("<b>{}</b>").format(label)]
        for other in labels:
            count = counts[label, other]
            share = count / gold[label] if count else 0.0
            note = mark("", note=f"{share:.1%}" if count else "")
            row.append(form.format("right" * (label == other), 0.45 * share, count, note))
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


def _shown(example: TextExample | SentencePair | MinimalPair) -> list[Value]:
    """Returns the line number of an example and its texts."""
    return [mark("", note=example.location.rpartition(", ")[2]), *example.texts]


def _decimals(*values: float) -> list[str]:
    """Formats values with two decimals, for columns with both small and large numbers."""
    return [f"{value:,.2f}" for value in values]
