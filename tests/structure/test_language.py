"""The glossary: words that do not occur in docstrings, comments, pages and notebooks."""

import ast
import json
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What not to write, and what to write instead. Spaces also match line breaks.
GLOSSARY = {
    "pieces?": "token, subword",
    "in place of": "instead of",
    "(?<!in )places?": "position, index, path, location, field",
    "hears?|heard|sees": "attends to, has access to",
    "behind(?! an? (proxy|load balancer))": "after, following",
    "(?<!model )cards?": "metadata",
    "left[- ]?overs?": "unused, remaining",
    "told(?! apart)|tells": "reported, states, shows",
    "reckon(s|ed|ing)?": "estimate, compute",
    "stumbl(es|ed|ing)": "fail on",
    "weigh(s|ed|ing)?": "measure, weight",
    "whose turn": "next, selected",
    "passed over": "skipped, ignored",
    "every so many|of all \\w+ every": "every N-th",
    "comes? in(?=[;:.,])|goes? out": 'a verb: "Reads X and returns Y."',
    "stands? (in(?! for)|at|before|beside|there|where)": "is in, is at",
    "the one of|that which|such as have": "the name of the thing",
    "house": "no metaphors",
}

# Not prose: fenced code, code spans, templates, quoted values, link targets, names of arguments.
CODE = re.compile(
    r"```.*?```|`[^`\n]*(\n[^`\n]+)?`|\{[{%].*?[%}]\}|\"[^\"\n]*\"|\]\([^)\n]*\)|^\w+:(?= )",
    re.DOTALL | re.MULTILINE,
)

# Folders and files that are not held to the glossary, and the reason.
EXCEPTIONS = {
    "docs/ko": "Korean",
    "docs/benchmarks/ablations": "reports, as the commands wrote them",
}


def prose_of(path: Path) -> str:
    """Returns the file with everything but prose removed; the prose keeps its lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        lines = [""] * (text.count("\n") + 1)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                for number, line in enumerate(str(node.value.value).split("\n"), node.lineno):
                    lines[number - 1] = line.strip()
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                if token.type == tokenize.COMMENT:
                    lines[token.start[0] - 1] = token.string.lstrip("# ")
        text = "\n".join(lines)
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return CODE.sub(lambda match: "\n" * match[0].count("\n") or "_", text)


def matches_in(prose: str):
    """Yields the line, the phrase and the words to use instead."""
    for phrase, instead in GLOSSARY.items():
        pattern = rf"\b({phrase})\b".replace(" ", r"\s")
        for match in re.finditer(pattern, prose, re.IGNORECASE):
            yield prose.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), instead


def test_the_glossary_applies_to_prose_only():
    assert list(matches_in("a\nof many\nPieces")) == [(3, "Pieces", "token, subword")]
    assert not list(matches_in(CODE.sub("_", 'the argument `tokens`, "piece", [x](place.md)')))


@pytest.mark.parametrize(
    "root",
    [
        "bert_keras",
        "tfrecords_tools",
        "benchmarks",
        "docs",
        "examples",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ],
)
def test_prose_follows_the_glossary(root):
    root = ROOT / root
    suffixes = (".py", ".md", ".ipynb")
    paths = sorted(path for path in [root, *root.rglob("*")] if path.suffix in suffixes)
    problems = []
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if not any(f"{name}/".startswith(f"{each}/") for each in EXCEPTIONS):
            problems += [
                f'{name}:{line}: "{phrase}"; write: {instead}'
                for line, phrase, instead in sorted(matches_in(prose_of(path)))
            ]
    assert not problems, "\n".join(["words outside the glossary", *problems])
