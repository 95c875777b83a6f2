"""The command line `bert-tfrecords`: from text to pretraining records and back to text."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return the exit code; see `run_command`."""
    try:
        from tfrecords_tools.commands import run

        return run(argv)
    except KeyboardInterrupt:
        print("bert-tfrecords: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
