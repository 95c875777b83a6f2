"""Measures local servers under load: texts a second, latency, memory, and their start.

`bert-keras serve` runs a BERT with random weights in each format in its own process, and
serving_onnx.py, a short server, runs it with ONNX Runtime. Clients in this process send one text a
request and send the next after the response. The servers take turns. The texts are the sentences of
SST-2 and, as long texts, the passages of SQuAD. With sentences, one more program takes turns: the
LiteRT model in this process, in batches of similar length, which is about the most that a server
can reach. With `--open-minutes`, requests also come at random times, at a share of the texts a
second that the server answered to 16 clients.

    python benchmarks/serving.py DATA                    # base: start, then under load
    python benchmarks/serving.py DATA --open-minutes 10  # ... and requests at random times
    python benchmarks/serving.py DATA --minutes 10 --servers litert  # its memory, 16 clients
    python benchmarks/serving.py DATA --servers litert-int8 onnx-int8 --clients 16 64
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
from serving_load import Latencies, Server, closed_loop, open_loop
from serving_models import (
    LITERT,
    LITERT_INT8,
    ONNX,
    ONNX_FILES,
    ONNX_INT8,
    OURS,
    SAVED_MODEL,
    TOKENIZER,
    write_models,
)

from bert_keras.arguments import run_command
from bert_keras.data.encoded import longest_first_batches
from bert_keras.downstream.squad.task import read_questions
from bert_keras.downstream.table import table_rows
from bert_keras.errors import InputError
from bert_keras.families import preset, presets
from bert_keras.serving.model import ServedModel
from bert_keras.serving.rest_api import DEFAULT_SIGNATURE
from bert_keras.serving.versions import open_model
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

SENTENCES, PASSAGES = "glue/SST-2/dev.tsv", "squad/dev-v1.1.json"
VOCABULARY = "vocab/bert-base-uncased-vocab.txt"
SERVERS = (*OURS, *ONNX_FILES)
IN_PROCESS = "in process"
RIVALS = {SAVED_MODEL: ONNX, LITERT: ONNX, LITERT_INT8: ONNX_INT8, IN_PROCESS: LITERT}
SORTED_BATCH = 16
CLIENTS = 16  # of the memory, and of the capacity of a server
SHARES = (0.5, 0.8)  # of the capacity, in the open loop
SETTLED = 2  # minutes, after which memory should not grow
COLUMNS = ("texts/s", "p50 ms", "p95 ms", "p99 ms", "errors")
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


def server(folder: Path, name: str, *, max_length: int) -> Server:
    if name in OURS:
        command = ["-m", "bert_keras.cli", "serve", folder / name, "--port", 0]
    else:
        script, onnx = Path(__file__).with_name("serving_onnx.py"), folder / ONNX
        command = [script, onnx / ONNX_FILES[name], onnx / TOKENIZER, max_length]
    return Server([sys.executable, *map(str, command)])


def show_starts(start: Callable[[str], Server], text: str, args: argparse.Namespace) -> None:
    columns = ("first response s", "first ms", "median ms", "MiB")
    print("\n" + f"{'start':<24}" + "".join(f"{column:>18}" for column in columns))
    for number, name in itertools.product(range(args.starts), args.servers):
        with start(name) as running, contextlib.closing(running.connection()) as connection:
            first, age = running.send(connection, text), running.age
            median = statistics.median(running.send(connection, text) for _ in range(21))
            memory = running.memory()
        print(
            f"{number + 1:>4}  {name:<18}{age:>18.1f}{1000 * first:>18.1f}{1000 * median:>18.1f}"
            f"{memory:>18.0f}",
            flush=True,
        )


def in_process(
    model: ServedModel, texts: Sequence[str], *, num_clients: int, seconds: float
) -> Latencies:
    """Runs batches of texts of similar length, in a mixed order; the clients are not needed."""
    rows = longest_first_batches(np.array([*map(len, texts)]), batch_size=SORTED_BATCH)
    batches = [[texts[row] for row in each] for each in rows]
    random.Random(num_clients).shuffle(batches)
    latencies = Latencies()
    start = time.perf_counter()
    for batch in itertools.cycle(batches):
        before = time.perf_counter()
        model.predict(DEFAULT_SIGNATURE, {"text": np.array([*map(str.encode, batch)], object)})
        latencies.times += [time.perf_counter() - before] * len(batch)
        latencies.seconds = time.perf_counter() - start
        if latencies.seconds > seconds:
            break
    return latencies


def show_load(
    loads: dict[str, Callable[..., Latencies]], texts: list[str], args: argparse.Namespace
) -> dict[str, float]:
    """Prints the rates; a ratio is the median over the turns. Returns the capacities."""
    capacities: dict[str, float] = {}
    show_columns("clients", "ratio to")
    for num_clients in args.clients:
        turns: dict[str, list[Latencies]] = {name: [] for name in loads}
        for _ in range(args.turns):
            for name, load in loads.items():
                time.sleep(REST)
                turns[name].append(load(texts, num_clients=num_clients, seconds=args.seconds))
        for name, results in turns.items():
            ratio, rival = "", RIVALS.get(name)
            if rival in turns:
                pairs = zip(results, turns[rival], strict=True)
                ratio = f"{statistics.median(a.rate / b.rate for a, b in pairs):>10.2f} {rival}"
            show(f"{num_clients:>4}  {name}", results, ratio)
            if num_clients == CLIENTS:
                capacities[name] = statistics.median(each.rate for each in results)
    return capacities


def show_open_load(
    servers: dict[str, Server],
    texts: list[str],
    capacities: dict[str, float],
    *,
    minutes: float,
) -> None:
    """Prints the latencies of requests at random times, in turns of about a minute."""
    num_turns = max(1, round(minutes))
    show_columns("capacity", "planned/s")
    for share in SHARES:
        turns: dict[str, list[Latencies]] = {name: [] for name in servers}
        for turn, (name, each) in itertools.product(range(num_turns), servers.items()):
            time.sleep(REST)
            options = {"rate": share * capacities[name], "seconds": 60 * minutes / num_turns}
            turns[name].append(open_loop(each, texts, seed=turn, **options))
        for name, results in turns.items():
            show(f"{share:>4.0%}  {name}", results, f"{share * capacities[name]:>10.1f}")


def show_columns(first: str, last: str) -> None:
    print("\n" + f"{first:<24}" + "".join(f"{column:>10}" for column in (*COLUMNS, last)))


def show(name: str, turns: list[Latencies], last_column: str) -> None:
    total = Latencies(
        times=[seconds for turn in turns for seconds in turn.times],
        errors=sum(turn.errors for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
    )
    percentiles = "".join(f"{total.milliseconds(percent):>10.0f}" for percent in (50, 95, 99))
    print(f"{name:<24}{total.rate:>10.1f}{percentiles}{total.errors:>10}{last_column}", flush=True)


def show_memory(running: Server, texts: list[str], *, minutes: float) -> None:
    start, sizes = time.perf_counter(), {0.0: running.memory()}
    print(f"{0:<24}{sizes[0.0]:>60.0f}")
    while (minute := (time.perf_counter() - start) / 60) < minutes:
        latencies = closed_loop(running, texts, num_clients=CLIENTS, seconds=30)
        minute = (time.perf_counter() - start) / 60
        sizes[minute] = running.memory()
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
    config, length = preset(arguments.size), arguments.max_length
    names = {*arguments.servers, LITERT}  # which runs in this process, too
    write_models(config, scratch, names, tokenizer=tokenizer, max_length=length)
    start = partial(server, scratch, max_length=length)
    print(f"{arguments.size}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, each in texts.items():
        tokens = [len(ids) + 2 for ids in tokenizer.ids_batch(each)]
        print(
            f"{name}: {len(each)} texts of {statistics.mean(tokens):.0f} tokens on average, "
            f"{statistics.quantiles(tokens, n=20)[-1]:.0f} at the 95th percentile"
        )
    if arguments.minutes:
        mixed = [text for pair in zip(*texts.values(), strict=False) for text in pair]
        for name in arguments.servers:
            show_columns(f"minute of {name}", "MiB")
            with start(name) as running:
                show_memory(running, mixed, minutes=arguments.minutes)
    else:
        sentences = texts["SST-2"]
        show_starts(start, sorted(sentences, key=len)[len(sentences) // 2], arguments)
        with contextlib.ExitStack() as stack:
            servers = {name: stack.enter_context(start(name)) for name in arguments.servers}
            loads = {name: partial(closed_loop, running) for name, running in servers.items()}
            with contextlib.closing(open_model(scratch / LITERT / "1")) as model:
                all_loads = {**loads, IN_PROCESS: partial(in_process, model)}
                capacities = show_load(all_loads, sentences, arguments)
            show_load(loads, texts["SQuAD"], arguments)
            if minutes := arguments.open_minutes:
                show_open_load(servers, sentences, capacities, minutes=minutes)
    print(f"load {os.getloadavg()[0]:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--size", default="base", choices=presets())
    parser.add_argument("--servers", nargs="+", default=SERVERS, choices=SERVERS)
    parser.add_argument("--max-length", type=int, default=384, help="maximum tokens of a text")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--seconds", type=float, default=8, help="duration of a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--open-minutes", type=float, help="open loop, for each server and rate")
    parser.add_argument("--minutes", type=float, help="measure the memory for this time instead")
    arguments = parser.parse_args()
    if arguments.open_minutes and CLIENTS not in arguments.clients:
        parser.error(f"--open-minutes needs {CLIENTS} in --clients")
    with tempfile.TemporaryDirectory() as scratch:
        return run_command("serving.py", lambda: measure(arguments, Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
