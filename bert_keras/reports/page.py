"""Renders every HTML and Markdown page of the project from the templates in this folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bert_keras.files import write_text

Value: TypeAlias = str | float | None  # content of a table cell; a Markup is not escaped


class Table(NamedTuple):
    """A table."""

    header: Sequence[str]  # names of the columns
    rows: Sequence[Sequence[Value]]  # one value for each column

    def aligned(self, first: Callable[[str, int], str] = str.rjust) -> list[str]:
        """Returns the lines of the table for a terminal, with `str.rjust` or `ljust` as `first`."""
        texts = [[shown(value) for value in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        return [
            "  ".join(
                (str.rjust if column else first)(text, width)
                for column, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in texts
        ]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page."""

    heading: str
    notes: Sequence[str] = ()
    table: Table | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page with a title and sections."""

    title: str
    sections: Sequence[Section]
    lead: Sequence[str] = ()  # sentences before the sections
    tiles: Sequence[tuple[str, str]] = ()  # (name, value) pairs before the sections

    def html(self) -> str:
        """Returns the page."""
        return render("report.html", title=self.title, report=self)

    def write(self, folder: Path) -> None:
        """Writes report.html and report.md to a folder."""
        write_text(folder / "report.html", self.html())
        write_text(folder / "report.md", render("report.md", report=self))


def shown(value: Value) -> str:
    """Formats counts without decimals, numbers up to 1 with four decimals and others with two."""
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if isinstance(value, Integral):
        return f"{value:,}"
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:,.2f}"


def mark(text: str, color: str = "", *, note: str = "") -> Markup:
    """Returns a text with the background "good", "bad", "both" or "", and a note in small print."""
    small = Markup("<small>{}</small>").format(note) if note else ""
    form = '<mark class="{color}">{text}{small}</mark>' if color else "{text}{small}"
    return Markup(form).format(color=color, text=text, small=small)


def render(template: str, **values: object) -> str:
    """Fills in a template of this package. In HTML templates every value is escaped."""
    return _environment.get_template(template).render(values)


_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates", encoding="utf-8"),
    autoescape=lambda name: name is not None and not name.endswith(".md"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_environment.filters |= {"shown": shown}
_environment.tests |= {"numeric": lambda value: value is None or isinstance(value, Real)}
_environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
