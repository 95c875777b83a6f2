"""Each message that tells the user what to do is followed in a test."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERBS = re.compile(
    r"(add|batch|build|call|check|choose|continue|convert|copy|correct|cut|do|download|export"
    r"|fetch|fine-tune|free|give|install|join|keep|learn|leave|list|load|look|move|name|omit|pass"
    r"|pretrain|put|raise|read|reduce|remove|rename|repeat|restore|run|save|see|select|send|serve"
    r"|set|shorten|start|train|try|unset|use|wait|write)\b"
)
NOT_FOLLOWED = {
    "see --set temperatur": "a help text",
    "correct entities are": "the legend of a page",
    "do not start a secon": "says what not to do, on a file system without locks",
    "read the log of its ": "of a job on remote workers, whose output this machine cannot read",
    "load the folder in t": "needs transformers 4 with TensorFlow, which excludes Keras 3",
}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each string but docstrings; a value in it becomes NUL."""
    tree = ast.parse(path.read_text("utf-8"))
    omitted = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            omitted.update(node.values)
        elif isinstance(node, ast.Expr):
            omitted.add(node.value)
    for node in ast.walk(tree):
        if node not in omitted and isinstance(node, (ast.JoinedStr, ast.Constant)):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [str(part.value) if isinstance(part, ast.Constant) else "\0" for part in parts]
            yield node.lineno, "".join(texts)


def instructions() -> dict[str, list[str]]:
    """Returns the locations of each instruction, by its first words.

    In a message that says what came, what was expected and what to do, an instruction is an
    imperative after "; ", or after a following ", or ". An instruction that is put together from
    variables is not found.
    """
    found = defaultdict(list)
    for package in ("bert_keras", "tfrecords_tools"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, text in strings(path):
                for clause in re.split("; |, or ", text)[1:] if "; " in text else ():
                    if VERBS.match(clause):
                        literals = sorted(clause.split("\0"), key=lambda part: len(part) < 8)
                        found[literals[0].strip()[:20]].append(f"{path.relative_to(ROOT)}:{line}")
    return found


def test_a_test_quotes_and_follows_each_instruction():
    """As many strings of the files test_remedies.py have the words as messages have them."""
    files = ROOT.glob("tests/**/test_remedies.py")
    texts = {text.replace("\\", "") for path in files for _, text in strings(path)}
    found = instructions()
    for words in NOT_FOLLOWED:
        del found[words]
    missing = {
        words: locations
        for words, locations in found.items()
        if sum(words in text for text in texts) < len(locations)
    }
    assert not missing
