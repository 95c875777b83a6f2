"""Shows the progress of long work on stderr, as one bar with a rate for each stage."""

import sys
from collections.abc import Iterable

from tqdm import tqdm

_LOG_SECONDS = 10
_LINE_UP = "\x1b[A"  # which tqdm writes after a bar within a bar


def progress(
    items: Iterable | None = None,
    *,
    stage: str,
    unit: str,
    total: float | None = None,
    initial: float = 0,
    leave: bool = True,
) -> tqdm:
    """Return a bar that wraps `items`, or counts by hand with `.update(n)`.

    Where stderr is no terminal, the bar becomes a line every ten seconds and one at the end.

    Args:
        items: What to iterate over, if anything.
        stage: Name of the work.
        unit: What is counted.
        total: How many there are, where `items` has no length.
        initial: How many were done before.
        leave: Keep the bar when it is done; False for a stage within a stage.
    """
    on_terminal = sys.stderr.isatty()
    return tqdm(
        items,
        desc=f"{stage:<24}",
        unit=f" {unit}",
        total=total,
        initial=initial,
        leave=leave,
        unit_scale=True,
        dynamic_ncols=True,
        mininterval=0.2 if on_terminal else _LOG_SECONDS,
        file=sys.stderr if on_terminal else _LogLines(),
    )


class _LogLines:
    """A stream to stderr that writes each state of a bar as a line of its own."""

    def write(self, text: str) -> None:
        line = text.replace(_LINE_UP, "").strip()
        if line and ":   0%|" not in line:  # nothing is done yet
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()
