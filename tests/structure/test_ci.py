"""The script .ci/run: it ends with the first command that fails, and skips no test for ever."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Stands for every program: writes its call to $LOG and fails in the call of the number $FAILS.
PROGRAM = """#!/usr/bin/env bash
echo "$0 $*" >> "$LOG"
if [ "$1" = -m ] && [ "$2" = venv ]; then
  mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
  for name in pip pytest python pyright ruff mkdocs bert-keras; do ln -f "$0" "$3/bin/$name"; done
fi
mapfile -t calls < "$LOG"
[ "${#calls[@]}" -ne "$FAILS" ]
"""


def test_the_script_ends_with_the_first_command_that_fails(tmp_path):
    checkout, log, python = tmp_path / "checkout", tmp_path / "log", tmp_path / "programs/python3"
    for path in (checkout / ".ci", python.parent):
        path.mkdir(parents=True)
    script = shutil.copy(ROOT / ".ci" / "run", checkout / ".ci")
    python.write_text(PROGRAM)
    python.chmod(0o755)
    path = f"{python.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "LOG": str(log), "PATH": path}

    def calls(fails: int) -> tuple[int, list[str]]:
        log.write_text("")
        changed = environment | {"FAILS": str(fails)}
        code = subprocess.run([script], env=changed, capture_output=True).returncode
        return code, log.read_text().splitlines()

    code, every = calls(0)
    assert code == 0 and len(every) > 10
    for number, call in enumerate(every, 1):
        code, done = calls(number)
        assert code and len(done) == number, f"the script continues after {call}"


def test_the_lowest_versions_are_the_lower_bounds_of_the_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = [re.sub(r">=([\d.]+).*", r"==\1", each) for each in project["dependencies"]]
    assert (ROOT / ".ci" / "lowest.txt").read_text("utf-8").splitlines() == lowest


def test_the_requirements_for_jax_are_the_dependencies_without_tensorflow():
    script = [sys.executable, ROOT / ".ci" / "requirements.py"]
    packages = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "requirements-jax.txt").read_text("utf-8") == packages


def test_a_test_that_needs_an_extra_is_marked():
    """The script installs the extras only for tests with the marker `extra` or `slow`."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text("utf-8"))
        marks = [ast.unparse(node) for node in module.body if "pytestmark" in ast.unparse(node)]
        functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
        calls = re.compile(r"\b(importorskip|find_spec)\(")
        needing = {node.name for node in functions if calls.search(ast.unparse(node))}
        for node in functions:
            needs = needing & {node.name, *(each.arg for each in node.args.args)}
            text = " ".join([*marks, *map(ast.unparse, node.decorator_list)])
            is_marked = re.search(r"mark\.(extra|slow)", text)
            assert is_marked or not (needs and node.name.startswith("test_")), (path, node.name)
