"""Situations and the endings that were chosen in; the wrong choices, marked, out."""

from collections.abc import Sequence

from bert_keras.reports.findings import Errors, Findings, confusion, mark, surest_first
from bert_keras.reports.page import Html, element
from bert_keras.tasks.swag import NUM_ENDINGS, ChosenEnding, Situation, SwagTask


def choice_findings(
    task: SwagTask, examples: Sequence[Situation], predictions: Sequence[ChosenEnding]
) -> Findings:
    pairs = [(e.label, p.ending) for e, p in zip(examples, predictions, strict=True)]
    numbers = [str(number) for number in range(NUM_ENDINGS)]
    errors: Errors = []
    for example, chosen in zip(examples, predictions, strict=True):
        if example.label != chosen.ending:
            sure = chosen.probabilities[chosen.ending] if chosen.probabilities else None
            text = f"{example.context} {example.start}".strip()
            errors.append((sure or 0.0, [text, _endings(example, chosen), sure]))
    return Findings(
        sections=[
            ("Place of the ending", confusion([(str(g), str(p)) for g, p in pairs], numbers))
        ],
        columns=["situation", "endings (right one green, chosen one red)", "probability"],
        errors=errors,
        order=surest_first(errors),
    )


def _endings(example: Situation, chosen: ChosenEnding) -> Html:
    lines = []
    for number, ending in enumerate(example.endings):
        kind = {example.label: "good", chosen.ending: "bad"}.get(number)
        share = f" {chosen.probabilities[number]:.2f}" if chosen.probabilities else ""
        text = mark(ending, kind) if kind else ending
        lines.append(element("div", text, element("small", share)))
    return element("div", *lines)
