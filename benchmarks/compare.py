"""Compares the speed of bert_keras at two commits: records, forward pass, train step, server.

Both sides run in turns on this machine, each in its own process with the code of its commit and the
dependencies of this environment. The ratio is the head's time divided by the base's time, so it is
below 1 where the head is faster; the table has the median of the turns and their middle half. With
--limit, the exit code is 1 if a ratio is above the limit. A wide middle half means that other
programs disturbed the turns.

    python benchmarks/compare.py HEAD~20
    python benchmarks/compare.py HEAD~20 --size mini --turns 7 --limit 1.3
"""

import argparse
import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from bert_keras.arguments import run_command
from bert_keras.errors import InputError
from bert_keras.reports.page import Table

ROOT = Path(__file__).resolve().parents[1]
WORKS = (
    *("records", "forward 1x128", "forward 8x128", "train step 8x128"),
    *("server, 8 clients", "server, 32 texts"),
)
COPIES = 4  # of the documentation, which is the corpus of the records; 1.3 MB


class Side:
    """A process that runs works with the code of one commit."""

    def __init__(self, commit: str, folder: Path, *, size: str):
        self._commit = commit
        archive = git("archive", commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(folder / "code", filter="data")
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("compare_side.py"), size],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "code")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, work: str) -> float:
        """Runs a work once and returns its time; the first run of a work also prepares it."""
        print(work, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(
                f"the process of {work} at {self._commit} ended; its messages are above. If this "
                "commit lacks what the benchmarks need, compare with a later one"
            )
        return float(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def git(*arguments: str) -> bytes:
    """Returns the output of git.

    Raises:
        InputError: git has failed.
    """
    result = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True)
    if result.returncode:
        message = result.stderr.decode().strip().splitlines()[-1]
        raise InputError(
            f"git {' '.join(arguments)}: {message}; expected a commit of this repository, "
            "completely cloned"
        )
    return result.stdout


def write_corpus(path: Path) -> None:
    """Writes the sentences of the documentation, several times, as documents."""
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    path.write_text("\n\n".join(pages * COPIES) + "\n", "utf-8")


def compare(arguments: argparse.Namespace) -> dict[str, np.ndarray]:
    """Returns the seconds of the base and of the head in each turn, [turns, 2], for each work."""
    commits = (arguments.base, arguments.head)
    names = [git("rev-parse", "--short", commit).decode().strip() for commit in commits]
    print(f"base {names[0]}, head {names[1]}, size {arguments.size}, {arguments.turns} turns")
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folders = [Path(scratch, name) for name in ("base", "head")]
        for folder in folders:
            folder.mkdir()
            write_corpus(folder / "corpus.txt")
        sides = [
            stack.enter_context(contextlib.closing(Side(name, folder, size=arguments.size)))
            for name, folder in zip(names, folders, strict=True)
        ]
        times = {}
        for work in arguments.only:
            for side in sides:
                side.seconds(work)  # not counted: it prepares the work
            turns = [[side.seconds(work) for side in sides] for _ in range(arguments.turns)]
            times[work] = np.array(turns)
    return times


def measure(arguments: argparse.Namespace) -> None:
    times = compare(arguments)
    rows, slower = [], []
    for work, turns in times.items():
        low, ratio, high = np.quantile(turns[:, 1] / turns[:, 0], (0.25, 0.5, 0.75))
        medians = [f"{1000 * value:.1f} ms" for value in np.median(turns, axis=0)]
        rows.append((work, *medians, f"{ratio:.2f} ({low:.2f} to {high:.2f})"))
        slower += [work] if arguments.limit and ratio > arguments.limit else []
    print("\n".join(Table(("work", "base", "head", "head / base"), rows).aligned(str.ljust)))
    if slower:
        raise SystemExit(f"more than {arguments.limit} times the base: {', '.join(slower)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", help="a commit")
    parser.add_argument("--head", default="HEAD", help="a commit; changes without one do not count")
    parser.add_argument("--size", default="base", help="of the models, such as mini")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.0, help="largest ratio; 0 for no limit")
    parser.add_argument("--only", nargs="+", choices=WORKS, default=WORKS, metavar="WORK")
    arguments = parser.parse_args()
    return run_command("compare.py", lambda: measure(arguments))


if __name__ == "__main__":
    sys.exit(main())
