"""Compares the time and peak memory of pretraining steps with KerasHub and transformers.

A step is forward pass, backward pass, clipping and AdamW, with dropout, on random batches shaped
like records. Ours and KerasHub run `model.fit`. Each side runs in its own process, so its peak
memory is measured separately. The first side takes turns of a few steps with each other side, so
two models are in memory. A ratio is the median over the turns, because machines change their speed.
With --compare start, a turn is a new process, from its start to the end of its first step.

    python benchmarks/train.py                      # base, 8 x 128, 20 predictions
    python benchmarks/train.py --size tiny
    python benchmarks/train.py --compare techniques
    python benchmarks/train.py --compare memory --length 512
    python benchmarks/train.py --compare start
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from train_batches import Work, synthetic_batches

from bert_keras.families import preset, presets

OURS = "ours"
COMPARISONS = {
    "peers": (
        OURS,
        "ours, XLA",
        "keras_hub",
        "keras_hub, XLA",
        "transformers",
        "transformers, gathered, fused",
    ),
    "techniques": (
        OURS,
        "ours, XLA",
        "every position projected",
        "Keras' AdamW",
        "Keras' losses and accuracies",
        "dense layers in three dimensions",
        "one product for query, key, value",
        "no dropout",
        "no metrics",
    ),
    "memory": (OURS, "blocks recomputed", "batch in 4 parts", "both"),
    "start": (OURS, "transformers, gathered, fused", "keras_hub"),
}
STEPS = {"base": 1, "large": 1}  # of a turn
SMALL_STEPS = 10  # of a turn of the other sizes
COLUMNS = ("ms a step", "first/this", "processor", "peak GiB", "start s")  # to the first step
REST = 0.3  # seconds; threads of the preceding run still spin


def named_side(name: str, work: Work, length: int) -> Callable[[], object]:
    """Returns the function that runs a turn of a side."""
    if name.startswith("transformers"):
        import train_torch as sides

        return (sides.gathered if "gathered" in name else sides.unmodified)(work)
    import train_keras as sides

    if name.startswith("keras_hub"):
        return sides.keras_hub(work, jit_compile=name.endswith("XLA"))
    changed = partial(partial, sides.ours)
    makers = {
        OURS: sides.ours,
        "ours, XLA": changed(jit_compile=True),
        "every position projected": sides.projecting_all,
        "Keras' AdamW": changed(optimizer=sides.keras_adamw),
        "Keras' losses and accuracies": changed(**sides.keras_losses()),
        "dense layers in three dimensions": changed(
            change=partial(sides.in_three_dimensions, length=length)
        ),
        "one product for query, key, value": changed(change=sides.in_one_product),
        "no dropout": sides.without_dropout,
        "no metrics": changed(weighted_metrics=None),
        "blocks recomputed": changed(change=sides.recompute),
        "batch in 4 parts": changed(gradient_accumulation_steps=4),
        "both": changed(change=sides.recompute, gradient_accumulation_steps=4),
    }
    return makers[name](work)


def serve(arguments: argparse.Namespace) -> None:
    """Runs one side: a turn, then a turn for each line of stdin; prints each result as JSON.

    The processor time of the first turn includes the start of the process.
    """
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries
    config = preset(arguments.size)
    batches = synthetic_batches(
        config, arguments.batch_size, arguments.length, arguments.predictions
    )
    work = Work(config=config, batches=batches, steps=arguments.steps)
    turn = named_side(arguments.side, work, arguments.length)

    def take_turn(processor: float) -> None:
        wall = time.perf_counter()
        turn()
        seconds = time.perf_counter() - wall, time.process_time() - processor
        print(json.dumps({"seconds": seconds, "peak": peak_memory()}), file=output)

    take_turn(0.0)
    for _ in sys.stdin:
        take_turn(time.process_time())


def peak_memory() -> float:
    """Returns the peak memory of this process in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**20


class Side:
    """A process that runs a turn on request."""

    def __init__(self, name: str, arguments: argparse.Namespace):
        shape = {
            name: getattr(arguments, name)
            for name in ("size", "batch_size", "length", "predictions", "steps")
        }
        options = [f"--{key.replace('_', '-')}={value}" for key, value in shape.items()]
        self.steps = arguments.steps
        self.turns: list[list[float]] = []  # milliseconds a step: elapsed, processor
        self.peak = 0.0
        start = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--side", name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read_turn()
        self.turns[0][0] = 1000 * (time.perf_counter() - start) / self.steps

    def take_turn(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self._read_turn()

    def _read_turn(self) -> None:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of turn {len(self.turns)} ended; its messages are above")
        result = json.loads(line)
        self.turns.append([1000 * seconds / self.steps for seconds in result["seconds"]])
        self.peak = result["peak"]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def take_turns(first: Side, other: Side, *, turns: int) -> tuple[list, list]:
    other.take_turn()  # warm-up
    for _ in range(turns):
        for side in (first, other):
            time.sleep(REST)
            side.take_turn()
    return first.turns[-turns:], other.turns[-turns:]


def take_starts(names: Sequence[str], arguments: argparse.Namespace) -> None:
    """Starts all sides in turn; prints the time from the start to the end of the first step."""
    starts: dict[str, list[Side]] = {name: [] for name in names}
    for _ in range(arguments.turns):
        for name, sides in starts.items():
            time.sleep(REST)
            sides.append(Side(name, arguments))
            sides[-1].end()
    times = {name: [side.turns[0] for side in sides] for name, sides in starts.items()}
    for name, sides in starts.items():
        show(name, sides[-1], times[names[0]], times[name])


def show(name: str, side: Side, ours: list, theirs: list) -> None:
    wall = statistics.median(turn[0] for turn in theirs)
    pairs = list(zip(ours, theirs, strict=True))
    clock, processor = (statistics.median(a[kind] / b[kind] for a, b in pairs) for kind in (0, 1))
    print(
        f"{name:<36}{wall:>11.1f}{clock:>11.2f}{processor:>11.2f}{side.peak:>11.2f}"
        f"{side.turns[0][0] * side.steps / 1000:>11.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compare", default="peers", choices=COMPARISONS)
    parser.add_argument("--only", nargs="+", help="sides to compare; the first is the reference")
    parser.add_argument("--size", default="base", choices=presets())
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, help="steps of a turn")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    is_start = arguments.compare == "start"
    arguments.steps = arguments.steps or (1 if is_start else STEPS.get(arguments.size, SMALL_STEPS))
    if arguments.side:
        serve(arguments)
        return
    print(
        f"{arguments.size}, {arguments.batch_size} x {arguments.length}, {arguments.predictions} "
        f"predictions; {arguments.turns} turns of {arguments.steps} steps; load "
        f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    print(f"{'':<36}" + "".join(f"{column:>11}" for column in COLUMNS))
    first_name, *names = arguments.only or COMPARISONS[arguments.compare]
    if is_start:
        take_starts((first_name, *names), arguments)
        return
    first = Side(first_name, arguments)
    first.take_turn()  # warm-up
    for name in names:
        other = Side(name, arguments)
        show(name, other, *take_turns(first, other, turns=arguments.turns))
        other.end()
    show(first_name, first, first.turns[2:], first.turns[2:])
    first.end()
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
