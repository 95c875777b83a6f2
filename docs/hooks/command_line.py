"""Generates the reference of both command lines and the changelog, and repairs and weighs pages.

MkDocs calls the functions `on_...` while it builds the site (`hooks` in mkdocs.yml).
"""

import argparse
import html
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROGRAMS = {"bert-keras": "bert_keras.cli.program", "bert-tfrecords": "tfrecords_tools.cli"}
LISTS = {  # `bert-keras list WHAT` -> the page with the same content
    "models": "../model-zoo.md",
    "recipes": "recipes.md",
    "tasks": "../choose-your-task.md",
}
SEARCH = {  # beginning or end of a path -> place of the page in the search of the site
    "how-to/": {"boost": 3},
    "benchmarks/archive/": {"boost": 0.1},
    "changelog.md": {"boost": 0.1},
    ".ipynb": {"exclude": True},  # tutorials/index.md has what each notebook shows
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds `reference/PROGRAM.md` for each program and `changelog.md` to the files of the site."""
    for program, module in PROGRAMS.items():
        parser = import_module(module).command_parser()
        page = "\n".join(command_line_page(parser))
        files.append(File.generated(config, f"reference/{program}.md", content=page))
    changelog = Path("CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=changelog))
    return files


def on_page_markdown(markdown: str, *, page: Page, **kwargs) -> str:
    """Points links of the reference to the generated pages, which only the site has."""
    if page.file.src_uri == "reference/index.md":
        for program in PROGRAMS:
            markdown = markdown.replace(f"| {program} |", f"| [{program}]({program}.md) |")
    return markdown.replace("](../../CHANGELOG.md)", "](../changelog.md)")


def on_page_content(content: str, *, page: Page, **kwargs) -> str:
    """Weighs the page in the search, keeps names whole, repairs links, puts an SVG into a page."""
    path = page.file.src_uri
    for part, place in SEARCH.items():
        if path.startswith(part) or path.endswith(part):
            page.meta["search"] = place
    content = re.sub(r"(?<=<code>)[^<]*(?=</code>)", _with_whole_names, content)
    if path == "choose-your-task.md":
        svg = Path("docs/images/choose-your-task.svg").read_text(encoding="utf-8")
        return re.sub(r"<img [^>]*choose-your-task.svg[^>]*>", lambda _: svg, content)
    if not path.endswith(".ipynb"):
        return content
    content = re.sub(r'(href|src)="([\w./-]+\.(?:md|ipynb|txt|png)[#"])', r'\1="../\2', content)
    return re.sub(r'(href="[\w./-]+?)(?:/index)?\.(?:md|ipynb)([#"])', r"\1/\2", content)


def _with_whole_names(code: re.Match) -> str:
    """Lets inline code break at spaces alone, not at the hyphens of an option."""
    return re.sub(r"(?<!\S)(?=\S{1,40}(?!\S))\S*[-/]\S*", r"<nobr>\g<0></nobr>", code[0])


def command_line_page(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the lines of the Markdown page of a program with subcommands."""
    (subcommands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    yield f"# {parser.prog}\n\n{_sentence(parser.description)}\n"
    yield "| command | description |\n|---|---|"
    for choice in subcommands._choices_actions:
        yield f"| [`{choice.dest}`](#{choice.dest}) | {_cell(choice.help)} |"
    for name, command in subcommands.choices.items():
        yield f"\n## {name}\n\n{_sentence(command.description)}\n"
        yield from _usage(command)
        yield from _arguments(command._actions)
        yield f"\n{_example(command.epilog)}"


def _usage(command: argparse.ArgumentParser) -> Iterator[str]:
    usage = command.format_usage().removeprefix("usage: ").rstrip()
    yield f"```text\n{usage}\n```\n"


def _arguments(actions: Iterable[argparse.Action]) -> Iterator[str]:
    yield "| argument | description |\n|---|---|"
    for action in actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        value = action.metavar or (action.choices and " | ".join(map(str, action.choices)))
        value = f" {value or action.dest.upper()}" if action.nargs != 0 else ""
        names = ", ".join(f"`{flag}{value}`" for flag in action.option_strings or ("",))
        required = " (required)" if action.required and action.option_strings else ""
        names = names.replace("` ", "`").replace("|", "\\|")
        yield f"| {names} | {_cell(action.help)}{required} |"


def _example(epilog: str | None) -> str:
    lines = (epilog or "").splitlines()[1:]
    commands = "\n".join(line.removeprefix("  ") for line in lines)
    title = "Examples" if commands.count("bert-") > 1 else "Example"
    return f"{title}:\n\n```bash\n{commands}\n```"


def _cell(text: str | None) -> str:
    cell = html.escape(text or "", quote=False).replace("|", "\\|")
    return re.sub(r"bert-keras list (\w+)", lambda found: f"[{found[0]}]({LISTS[found[1]]})", cell)


def _sentence(text: str | None) -> str:
    text = " ".join((text or "").split())
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith(".") else ".")
