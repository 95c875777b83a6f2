"""Measures the stages of writing records with one worker from text with one sentence a line.

`build` runs unchanged, with timers around the functions of each stage; a timer pauses while a timer
inside it runs. Timers are read once a line or once a batch, which costs about 1 % of the time.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from bert_keras.data import record_file
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools import build as building
from tfrecords_tools import shards, tokens
from tfrecords_tools.settings import BuildSettings

CLOCKS = [  # (owner of the function, its name, stage)
    (building, "input_entry", "digest of the input"),
    (tokens, "_batches", "read lines"),
    (tokens, "_encode_texts", "tokenise"),
    (tokens.TokenWriter, "add", "store ids"),
    (building, "join_stores", "store ids"),
    (building.FindInstances, "__call__", "find pairs"),
    (shards, "read_bucket", "shuffle, cut"),
    (shards, "arrange_sequences", "shuffle, cut"),
    (shards, "read_tokens", "fetch ids"),
    (shards, "record_features", "pack"),
    (shards.Masker, "mask", "mask"),
    (record_file, "serialize", "serialise"),
    (record_file, "frame", "frame, checksums"),
    (shards.WriteShard, "__call__", "digest, write"),
]


class Clocks:
    def __init__(self):
        self.seconds: Counter[str] = Counter()
        self._running: list[str] = []
        self._since = time.perf_counter()

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def start(self, stage: str) -> None:
        self._switch()
        self._running.append(stage)

    def end(self) -> None:
        self._switch()
        self._running.pop()

    def around(self, stage: str, function: Callable) -> Callable:
        def timed(*arguments, **keywords):
            self.start(stage)
            try:
                result = function(*arguments, **keywords)
            finally:
                self.end()
            return self._steps(stage, result) if isinstance(result, Iterator) else result

        return timed

    def _steps(self, stage: str, steps: Iterator) -> Iterator:
        while True:
            self.start(stage)
            try:
                step = next(steps, self)
            finally:
                self.end()
            if step is self:
                return
            yield step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--splitter", default="lines")
    arguments = parser.parse_args()
    clocks = Clocks()
    for owner, name, stage in CLOCKS:
        setattr(owner, name, clocks.around(stage, getattr(owner, name)))
    find_splitter = tokens.splitter
    tokens.splitter = lambda name: clocks.around("split sentences", find_splitter(name))
    build = clocks.around("the rest", building.build)
    with tempfile.TemporaryDirectory() as folder:
        manifest = build(
            [arguments.text],
            vocabulary=Vocabulary.from_file(arguments.vocab),
            output=Path(folder) / "records",
            settings=BuildSettings(splitter=arguments.splitter, duplicates=5),
        )
    num_records, total = manifest["splits"]["train"]["records"], clocks.seconds.total()
    print(f"\n{'stage, one worker':<28}{'seconds':>9}{'share':>8}{'us/record':>11}")
    for stage, seconds in [*clocks.seconds.items(), ("all", total)]:
        share, micros = seconds / total, 1e6 * seconds / num_records
        print(f"{stage:<28}{seconds:>9.2f}{share:>8.1%}{micros:>11.2f}")


if __name__ == "__main__":
    main()
