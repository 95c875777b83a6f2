"""Measures the local server under load: texts a second, latency, memory, and its start.

`bert-keras serve` runs an exported BERT with random weights in its own process. Clients in this
process send one text a request and send the next after the response. The texts are the sentences of
SST-2 and, as long texts, the passages of SQuAD. With sentences, two other programs take turns with
it: the same SavedModel in this process, in batches of similar length, which is about the most that
a server can reach; and the same model in the simplest server, serving_naive.py.

    python benchmarks/serving.py DATA               # base: its start, then under load
    python benchmarks/serving.py DATA --minutes 10  # its memory, 16 clients
    python benchmarks/serving.py DATA --max-batch-sizes 8 16 32 --clients 16 64
"""

import argparse
import contextlib
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from serving_load import Latencies, Server, closed_loop

from bert_keras.arguments import run_command
from bert_keras.data.encoded import longest_first_batches
from bert_keras.downstream.squad.questions import read_questions
from bert_keras.downstream.table import table_rows
from bert_keras.errors import InputError
from bert_keras.exporting.verify import Run, loaded
from bert_keras.serving.versions import chosen_versions
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

SENTENCES, PASSAGES = "glue/SST-2/dev.tsv", "squad/dev-v1.1.json"
VOCABULARY = "vocab/bert-base-uncased-vocab.txt"
OURS, NAIVE, IN_PROCESS = "ours", "naive", "in process"
SORTED_BATCH = 16
MEMORY_CLIENTS = 16
SETTLED = 2  # minutes, after which memory should not grow
COLUMNS = ("texts/s", "p50 ms", "p95 ms", "p99 ms", "errors", "ratio")
REST = 0.3  # seconds; threads of the preceding run still spin
SEED = 1


def texts_of(data: Path) -> dict[str, list[str]]:
    sentences = table_rows(data / SENTENCES, columns=["sentence"])
    questions = read_questions(str(data / PASSAGES))
    texts = {
        "SST-2": [values["sentence"] for _, values in sentences],
        "SQuAD": sorted({question.context for question in questions}),
    }
    for each in texts.values():
        random.Random(SEED).shuffle(each)
    return texts


def write_model(size: str, folder: Path, *, vocabulary: Vocabulary, max_length: int) -> None:
    import keras

    from bert_keras import BertClassifier, WordPieceTokenizer, preset

    keras.utils.set_random_seed(SEED)
    model = BertClassifier(preset(size), num_labels=2)
    tokenizer = WordPieceTokenizer(vocabulary)
    model.export(folder, tokenizer=tokenizer, labels=("0", "1"), max_length=max_length)


def ours(model: Path, *options: object) -> Server:
    command = [sys.executable, "-m", "bert_keras.cli", "serve", model, "--port", 0, *options]
    return Server(list(map(str, command)))


def naive(model: Path) -> Server:
    return Server([sys.executable, str(Path(__file__).with_name("serving_naive.py")), str(model)])


def show_starts(model: Path, text: str, *, num_starts: int) -> None:
    print(f"\n{'start':<24}{'first response s':>16}{'first ms':>12}{'median ms':>12}{'ratio':>8}")
    for number in range(num_starts):
        with ours(model) as server, contextlib.closing(server.connection()) as connection:
            first, age = server.send(connection, text), server.age
            median = statistics.median(server.send(connection, text) for _ in range(21))
        print(
            f"{number + 1:<24}{age:>16.1f}{1000 * first:>12.0f}{1000 * median:>12.0f}"
            f"{first / median:>8.2f}",
            flush=True,
        )


def in_process(run: Run, texts: Sequence[str], *, num_clients: int, seconds: float) -> Latencies:
    """Runs batches of texts of similar length, in a mixed order; the clients are not needed."""
    rows = longest_first_batches(np.array([*map(len, texts)]), batch_size=SORTED_BATCH)
    batches = [[texts[row] for row in each] for each in rows]
    random.Random(num_clients).shuffle(batches)
    latencies = Latencies()
    start = time.perf_counter()
    for batch in itertools.cycle(batches):
        before = time.perf_counter()
        run("serving_default", {"text": np.array(batch, object)})
        latencies.times += [time.perf_counter() - before] * len(batch)
        latencies.seconds = time.perf_counter() - start
        if latencies.seconds > seconds:
            break
    return latencies


def show_load(
    loads: dict[str, Callable[..., Latencies]], texts: list[str], arguments: argparse.Namespace
) -> None:
    """Prints the rates; a ratio is the median over the turns, relative to the last load."""
    print("\n" + f"{'clients':<24}" + "".join(f"{column:>10}" for column in COLUMNS))
    for num_clients in arguments.clients:
        turns: dict[str, list[Latencies]] = {name: [] for name in loads}
        for _ in range(arguments.turns):
            for name, load in loads.items():
                time.sleep(REST)
                turns[name].append(load(texts, num_clients=num_clients, seconds=arguments.seconds))
        last = list(turns.values())[-1]
        for name, results in turns.items():
            ratio = statistics.median(a.rate / b.rate for a, b in zip(results, last, strict=True))
            show(f"{num_clients:>4}  {name}", results, f"{ratio:>10.2f}")


def show(name: str, turns: list[Latencies], last_column: str) -> None:
    total = Latencies(
        times=[seconds for turn in turns for seconds in turn.times],
        errors=sum(turn.errors for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
    )
    percentiles = "".join(f"{total.milliseconds(percent):>10.0f}" for percent in (50, 95, 99))
    print(f"{name:<24}{total.rate:>10.1f}{percentiles}{total.errors:>10}{last_column}", flush=True)


def show_memory(model: Path, texts: list[str], *, minutes: float) -> None:
    columns = (*COLUMNS[:-1], "MiB")
    print("\n" + f"{'minute':<24}" + "".join(f"{column:>10}" for column in columns))
    with ours(model) as server:
        start, sizes = time.perf_counter(), {0.0: server.memory()}
        print(f"{0:<24}{sizes[0.0]:>60.0f}")
        while (minute := (time.perf_counter() - start) / 60) < minutes:
            latencies = closed_loop(server, texts, num_clients=MEMORY_CLIENTS, seconds=30)
            minute = (time.perf_counter() - start) / 60
            sizes[minute] = server.memory()
            show(f"{minute:.1f}", [latencies], f"{sizes[minute]:>10.0f}")
    settled = [size for minute, size in sizes.items() if minute >= SETTLED]
    if settled:
        print(f"after minute {SETTLED}: {min(settled):.0f} to {max(settled):.0f} MiB")


def measure(arguments: argparse.Namespace, scratch: Path) -> None:
    wanted = (SENTENCES, PASSAGES, VOCABULARY)
    if missing := [name for name in wanted if not (arguments.data / name).is_file()]:
        raise InputError(
            f"{arguments.data} lacks {', '.join(missing)}; expected files {', '.join(wanted)}"
        )
    texts = texts_of(arguments.data)
    vocabulary = Vocabulary.from_file(arguments.data / VOCABULARY)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=True)
    model = arguments.model or scratch / arguments.size
    if not arguments.model:
        length = arguments.max_length
        write_model(arguments.size, model / "1", vocabulary=vocabulary, max_length=length)
    print(f"{model.name}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, each in texts.items():
        tokens = [len(ids) + 2 for ids in tokenizer.ids_batch(each)]
        print(
            f"{name}: {len(each)} texts of {statistics.mean(tokens):.0f} tokens on average, "
            f"{statistics.quantiles(tokens, n=20)[-1]:.0f} at the 95th percentile"
        )
    if arguments.minutes:
        mixed = [text for pair in zip(*texts.values(), strict=False) for text in pair]
        show_memory(model, mixed, minutes=arguments.minutes)
    else:
        median = sorted(texts["SST-2"], key=len)[len(texts["SST-2"]) // 2]
        show_starts(model, median, num_starts=arguments.starts)
        with contextlib.ExitStack() as stack:
            servers = {
                f"{OURS}, batches of {size}": stack.enter_context(
                    ours(model, "--max-batch-size", size)
                )
                for size in arguments.max_batch_sizes
            } or {OURS: stack.enter_context(ours(model))}
            (version,) = chosen_versions(model).values()
            run = stack.enter_context(loaded(version))
            loads = {name: partial(closed_loop, server) for name, server in servers.items()}
            with naive(model) as other:
                rivals = {IN_PROCESS: partial(in_process, run), NAIVE: partial(closed_loop, other)}
                show_load({**loads, **rivals}, texts["SST-2"], arguments)
            show_load(loads, texts["SQuAD"], arguments)
    print(f"load {os.getloadavg()[0]:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--size", default="base", help="size of the exported model")
    parser.add_argument("--max-length", type=int, default=384, help="maximum tokens of a text")
    parser.add_argument("--model", type=Path, help="a classifier to use instead, saved_models/NAME")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=8, help="duration of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--max-batch-sizes", type=int, nargs="+", default=[])
    parser.add_argument("--minutes", type=float, help="measure the memory for this time instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return run_command("serving.py", lambda: measure(arguments, Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
