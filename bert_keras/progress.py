"""Long work shows itself: one progress bar with a rate, on stderr, for every stage of the house."""

import sys
from collections.abc import Iterable

from tqdm import tqdm

_LOG_SECONDS = 10
_LINE_UP = "\x1b[A"  # from a bar to the one that it stands in


def progress(
    items: Iterable | None = None,
    *,
    stage: str,
    unit: str,
    total: float | None = None,
    initial: float = 0,
    leave: bool = True,
) -> tqdm:
    """A bar that wraps `items`, or counts by hand with `.update(n)`.

    Where stderr is no terminal it becomes a line every ten seconds and one at the end. A bar that
    is not to `leave` anything goes when it is done, such as that of a stage within a stage.
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
    """A stream on which what would overwrite the last line of stderr is a line of its own."""

    def write(self, text: str) -> None:
        line = text.replace(_LINE_UP, "").strip()
        if line and ":   0%|" not in line:  # nothing is done yet
            print(line, file=sys.stderr)

    def flush(self) -> None:
        sys.stderr.flush()
