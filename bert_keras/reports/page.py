"""Headings, tables and drawings in, one HTML page that needs nothing else, out."""

import html
from collections.abc import Iterable, Sequence
from numbers import Integral, Real

# Charts and tables alike; the dark colours are for screens only, paper stays white.
STYLE = """
:root { --ink: #1c2024; --faint: #6a7178; --paper: #fff; --line: #d8dce0; --raised: #f4f6f8;
  --good: #bfe6c8; --bad: #f6c6c1; --both: #d8d2f0; --heat: 33, 102, 204; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --faint: #9aa2aa;
  --paper: #15181b; --line: #3a4046; --raised: #1f2428; --good: #1f5a33; --bad: #702c28;
  --both: #4a3f7a; --heat: 96, 160, 255; } }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.note { color: var(--faint); }
div.scores { display: flex; flex-wrap: wrap; gap: .6rem; }
div.scores div { background: var(--raised); border-radius: .4rem; padding: .4rem .8rem; }
div.scores b { display: block; font-size: 1.15rem; }
div.wide { overflow-x: auto; } div.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: left;
  vertical-align: top; overflow-wrap: break-word; }
th { background: var(--raised); font-weight: 600; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.right { box-shadow: inset 0 0 0 2px var(--faint); }
tr { break-inside: avoid; } thead { display: table-header-group; }
mark { color: inherit; border-radius: .2rem; padding: 0 .15rem; }
mark.good { background: var(--good); } mark.bad { background: var(--bad); }
mark.both { background: var(--both); } small { opacity: .7; }
svg { max-width: 100%; height: auto; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } }
"""


class Html(str):
    """Markup as it stands; whatever else is put into a page is escaped."""


def markup(*content: object) -> Html:
    return Html("".join(c if isinstance(c, Html) else html.escape(str(c)) for c in content))


def element(name: str, *content: object, **attributes: object) -> Html:
    """`class_` and the like stand for names that Python keeps for itself."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{markup(*content)}</{name}>")


def number(value: Real | None) -> str:
    """Counts as they are, shares with four decimals, percentages with two."""
    if value is None:
        return "–"
    if isinstance(value, Integral):
        return f"{value:,}"
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.2f}"


def figure(value: float | None) -> Html:
    """A cell of a column whose numbers may be small and great: two decimals throughout."""
    return element("td", "–" if value is None else f"{value:,.2f}", class_="number")


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> Html:
    """Numbers stand to the right; a cell that is a <td> or <th> already stays as it is."""
    head = element("tr", *(element("th", cell) for cell in header))
    body = [element("tr", *map(_cell, row)) for row in rows]
    parts = element("thead", head), element("tbody", *body)
    return element("div", element("table", *parts), class_="wide")


def pipes(rows: Sequence[Sequence[object]]) -> list[str]:
    """A header and rows as the lines of a table in Markdown."""
    header, *others = [[shown(cell) for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *others)]


def shown(value: object) -> str:
    return value if isinstance(value, str) else number(value)


def page(title: str, *content: Html) -> Html:
    head = markup(
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Html(STYLE)),
    )
    body = element("body", element("h1", title), *content)
    return markup(
        Html("<!doctype html>\n"), element("html", element("head", head), body, lang="en")
    )


def _cell(value: object) -> Html:
    if isinstance(value, Html) and value.startswith(("<td", "<th")):
        return value
    if isinstance(value, Real) or value is None:
        return element("td", number(value), class_="number")
    return element("td", value)
