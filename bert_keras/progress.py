"""Shows the progress of long work on stderr, with one bar for each stage."""

import re
import sys
from collections.abc import Iterable

from tqdm import tqdm

_LOG_SECONDS = 10
_INITIAL_STATE = re.compile(r"^[^|[]*: ( *0%\||0\.00 )")  # with and without a total
_LINE_UP = "\x1b[A"  # the escape sequence that tqdm writes after a nested bar


def progress(
    items: Iterable | None = None,
    *,
    stage: str,
    unit: str,
    total: float | None = None,
    initial: float = 0,
    leave: bool = True,
) -> tqdm:
    """Return a progress bar.

    If stderr is not a terminal, the bar is replaced by a log line every ten seconds and one at the
    end.

    Args:
        items: The items to iterate over. If None, call `.update(n)` on the bar instead.
        stage: Name of the stage, shown before the bar.
        unit: Name of one item, shown after the count.
        total: Number of items, if `items` has no length.
        initial: Number of items that are already done.
        leave: Whether to keep the bar on the terminal when it is done. Use False for a bar within
            another stage.

    Returns:
        The bar, which iterates over `items` and is also a context manager.
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
        disable=total == 0,  # no bar of 0 of 0 items
        mininterval=0.2 if on_terminal else _LOG_SECONDS,
        file=sys.stderr if on_terminal else _LogLines(),
    )


class _LogLines:
    """A stream that writes each state of a bar to stderr as a separate line."""

    def write(self, text: str) -> None:
        line = text.replace(_LINE_UP, "").strip()
        if line and not _INITIAL_STATE.search(line):
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()
