"""The script .ci/run: it ends with the first command that fails, and skips no test for ever."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Stands for every program: writes its call to $LOG and fails in the call of the number $FAILS.
PROGRAM = """#!/usr/bin/env bash
echo "$0 $*" >> "$LOG"
if [ "$1" = -m ] && [ "$2" = venv ]; then
  mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
  for name in pip pytest python pyright ruff mkdocs bert-keras; do cp "$0" "$3/bin/$name"; done
fi
[ "$(wc -l < "$LOG")" -ne "$FAILS" ]
"""


def test_the_script_ends_with_the_first_command_that_fails(tmp_path):
    checkout, log, python = tmp_path / "checkout", tmp_path / "log", tmp_path / "programs/python3"
    for path in (checkout / ".ci", python.parent):
        path.mkdir(parents=True)
    script = shutil.copy(ROOT / ".ci" / "run", checkout / ".ci")
    python.write_text(PROGRAM)
    python.chmod(0o755)
    environment = {**os.environ, "LOG": str(log)}
    environment["PATH"] = f"{python.parent}:{environment['PATH']}"

    def calls(fails: int) -> tuple[int, list[str]]:
        log.write_text("")
        code = subprocess.run(
            [script], env={**environment, "FAILS": str(fails)}, capture_output=True
        ).returncode
        return code, log.read_text().splitlines()

    code, every = calls(0)
    assert code == 0 and len(every) > 10
    for number, call in enumerate(every, 1):
        code, done = calls(number)
        assert code and len(done) == number, f"the script continues after {call}"


def needs_extra(node: ast.AST) -> bool:
    """Returns whether the code skips a test if a package is missing."""
    attributes = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return not {"importorskip", "find_spec"}.isdisjoint([*attributes, *names])


def test_a_test_that_needs_an_extra_is_marked():
    """The script installs the extras only for tests with the marker `extra` or `slow`."""
    unmarked = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text("utf-8"))
        assigned = [node for node in module.body if isinstance(node, ast.Assign)]
        marks = [node.value for node in assigned if ast.unparse(node.targets[0]) == "pytestmark"]
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        functions = {
            node: " ".join(map(ast.unparse, [*marks, *decorators, *node.decorator_list]))
            for decorators, body in [
                ([], module.body),
                *((each.decorator_list, each.body) for each in classes),
            ]
            for node in body
            if isinstance(node, ast.FunctionDef)
        }
        needing = {node.name for node in functions if needs_extra(node)}
        for node, text in functions.items():
            needs = needing & {node.name, *(each.arg for each in node.args.args)}
            if node.name.startswith("test_") and needs and not re.search("mark.(extra|slow)", text):
                unmarked.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert not unmarked
