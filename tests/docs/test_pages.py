"""The pages of the documentation: links, navigation, commands, Python code, the reference."""

import ast
import re
import shlex
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

import bert_keras
from bert_keras.downstream.catalog import named_task
from bert_keras.runs.distillation import OF_TASK, Distillation
from bert_keras.runs.recipes import PRETRAIN
from bert_keras.runs.settings import task_recipes, with_changes

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")])
GENERATED = {"changelog.md", "reference/bert-keras.md", "reference/bert-tfrecords.md"}
PARSERS = {
    "bert-keras": import_module("bert_keras.cli.program").command_parser,
    "bert-tfrecords": import_module("tfrecords_tools.cli").command_parser,
}
DISTILLATION = Distillation(teacher="", **OF_TASK)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    return [code for language, code in found if language in languages]


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)


def is_module(name: str) -> bool:
    return ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as MkDocs and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", without_code(page), re.M)
    words = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {re.sub(r"[ -]+", "-", title.strip()) for title in words}


@every_page
def test_no_link_leads_nowhere(page):
    for link in re.findall(r'(?:\]\(|src=")([^)"\s]+)', without_code(page)):
        if "://" not in link:
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            assert target.exists() and (not anchor or anchor in anchors(target)), link


def test_each_task_of_the_picture_leads_to_its_section():
    links = re.findall(r'href="#([^"]+)"', (ROOT / "docs/images/choose-your-task.svg").read_text())
    assert len(links) == 10 and set(links) <= anchors(ROOT / "docs/choose-your-task.md")


def check_changes(command: str, options: Namespace) -> None:
    """Applies the --set of a training command to the recipe and the task that it names."""
    if command == "pretrain":
        with_changes(PRETRAIN[options.recipe], DISTILLATION, changes=options.changes)
    if command == "finetune":
        recipe = task_recipes(options.task)[options.recipe or "paper"]
        with_changes(recipe, named_task(options.task), DISTILLATION, changes=options.changes)


@every_page
def test_every_command_parses(page):
    for line in "".join(blocks(page, "", "bash")).replace("\\\n", " ").splitlines():
        program, _, arguments = line.partition(" ")
        if program in PARSERS:
            arguments = shlex.split(arguments, comments=True)
            check_changes(arguments[0], PARSERS[program]().parse_args(arguments))


@every_page
def test_every_python_block_imports_names_that_exist(page):
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("bert_keras"):
                module = import_module(node.module)
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    assert hasattr(module, alias.name) or is_module(name), f"{page}: {name}"


# Pages that show how to extend the package, which needs its inner modules.
SHOW_INNER_MODULES = {"extending.md", "reproduce-tables.md"}


def test_readers_import_only_public_names():
    """Pages, notebooks and the examples of docstrings import nothing deeper than `bert_keras`."""
    notebooks, modules = ROOT.glob("docs/**/*.ipynb"), ROOT.glob("bert_keras/**/*.py")
    for path in [*PAGES, *notebooks, *modules]:
        text = path.read_text("utf-8")
        if path.suffix != ".ipynb":
            text = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
        inner = re.search(r"(?:from|import) (?:bert_keras|tfrecords_tools)\.\S*", text)
        assert not inner or path.name in SHOW_INNER_MODULES, f"{path}: {inner[0]}"


def test_the_reference_documents_every_public_name():
    folder = ROOT / "docs" / "reference" / "python"
    text = "".join(page.read_text("utf-8") for page in folder.glob("*.md"))
    paths = re.findall(r"^::: (\S+)$", text, re.M)
    for path in paths:
        module, _, name = path.rpartition(".")
        assert is_module(path) or hasattr(import_module(module), name), path
    assert set(bert_keras.__all__) <= {path.rpartition(".")[2] for path in paths}
    _, table = (folder / "index.md").read_text("utf-8").split("## All names")
    named = [cell for row in re.findall(r"^\| (`.*?) \|", table, re.M) for cell in row.split(", ")]
    assert sorted(name.strip("`") for name in named) == bert_keras.__all__


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"[\w/-]+\.md\b", text.split("\nnav:")[1]))
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert listed == GENERATED | {page for page in pages if "/ablations/" not in page}


def test_the_first_example_is_the_same_in_the_readme_and_the_site():
    readme, site = (blocks(ROOT / name, "python")[0] for name in ("README.md", "docs/index.md"))
    assert readme == site and len(readme.splitlines()) <= 12


def test_the_korean_readme_has_the_headings_code_links_and_figures_of_the_english_one():
    english, korean = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.ko.md"))
    for pattern in (r"^#+(?= )", r"^```.*?^```$", r"^- \*\*"):
        found = [re.findall(pattern, text, re.M | re.S) for text in (english, korean)]
        assert found[0] == found[1], pattern
    links = [set(re.findall(r"\]\(([^)]*)\)", text)) for text in (english, korean)]
    own = {"README.ko.md", "docs/explanation/paper.md", "docs/ko/index.md", "docs/ko/paper.md"}
    assert links[0] ^ links[1] == own
    texts = [re.sub(r"\]\([^)]*\)", "", text) for text in (english, korean)]
    figures = [sorted(re.findall(r"\d[\d.e-]*\d|\d", text)) for text in texts]
    assert figures[0] == figures[1]
