"""Compares the time to write record files with google-research/bert and TensorFlow Model Garden.

Every writer runs in its own process, bound to its number of cores, on the same text with one
sentence a line: 128 positions, 20 predictions, five passes. `--original` is a folder with
google-research/bert, `--tf-models` a folder that contains `official/`. Both scripts are unchanged;
only their imports are replaced (names of TensorFlow 1, and packages that they do not use).
"""

import argparse
import importlib.util
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from statistics import median

MAX_LENGTH, MAX_PREDICTIONS, PASSES = 128, 20, 5
ORIGINAL = Path("create_pretraining_data.py")
TF_MODELS = Path("official/nlp/data/create_pretraining_data.py")
PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
UNUSED_IMPORTS = ("sentencepiece", "tf_keras")  # by TF_MODELS


def ours(text: str, vocabulary: str, output: str, workers: int, started: Callable) -> None:
    from bert_keras.text.vocab import Vocabulary
    from tfrecords_tools.build import build
    from tfrecords_tools.settings import BuildSettings

    started()
    settings = BuildSettings(
        splitter="lines", max_length=MAX_LENGTH, max_predictions=MAX_PREDICTIONS, duplicates=PASSES
    )
    build(
        [text],
        vocabulary=Vocabulary.from_file(vocabulary),
        output=output,
        settings=settings,
        workers=workers,
    )


def compatible(text: str, vocabulary: str, output: str, workers: int, started: Callable) -> None:
    from bert_keras.text.vocab import Vocabulary
    from tfrecords_tools.build import build
    from tfrecords_tools.settings import GoogleSettings

    started()
    settings = GoogleSettings(
        max_length=MAX_LENGTH, max_predictions=MAX_PREDICTIONS, duplicates=PASSES
    )
    build([text], vocabulary=Vocabulary.from_file(vocabulary), output=output, settings=settings)


def original(
    text: str, vocabulary: str, output: str, workers: int, started: Callable, folder: str
) -> None:
    import tensorflow

    sys.modules["tensorflow"] = tensorflow.compat.v1
    sys.path.insert(0, folder)
    started()
    _run_script(Path(folder) / ORIGINAL, text, vocabulary, output)


def tf_models(
    text: str, vocabulary: str, output: str, workers: int, started: Callable, folder: str
) -> None:
    import tensorflow  # noqa: F401  its time is listed separately

    for name in UNUSED_IMPORTS:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = types.ModuleType(name)
    sys.path.insert(0, folder)
    started()
    _run_script(Path(folder) / TF_MODELS, text, vocabulary, output)


def _run_script(script: Path, text: str, vocabulary: str, output: str) -> None:
    flags = {
        "input_file": text,
        "output_file": f"{output}/train.tfrecord",
        "vocab_file": vocabulary,
        "max_seq_length": MAX_LENGTH,
        "max_predictions_per_seq": MAX_PREDICTIONS,
        "dupe_factor": PASSES,
    }
    Path(output).mkdir(exist_ok=True)
    sys.argv = [str(script), *(f"--{name}={value}" for name, value in flags.items())]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


WRITERS = {"ours": ours, "compatible": compatible, "original": original, "tf_models": tf_models}


def used_so_far() -> tuple[float, float]:
    """Returns elapsed seconds and processor seconds of this process and its children."""
    used = [resource.getrusage(process) for process in PROCESSES]
    return time.perf_counter(), sum(each.ru_utime + each.ru_stime for each in used)


def run_alone(name: str, workers: int, arguments: list[str]) -> None:
    """Runs a writer in this process and prints its measurements as the last line."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-workers:])
    text, vocabulary, output, *folder = arguments
    start, started = time.perf_counter(), []
    WRITERS[name](text, vocabulary, output, workers, lambda: started.extend(used_so_far()), *folder)
    end, processor = used_so_far()
    memory = [resource.getrusage(process).ru_maxrss for process in PROCESSES]
    measures = {
        "start": started[0] - start,
        "run": end - started[0],
        "processor": processor - started[1],
        "memory": max(memory) * 1024,
    }
    print(json.dumps(measures))


def measured(name: str, workers: int, text: str, vocabulary: str, folder: str | None) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        output = os.path.join(scratch, "records")
        command = [sys.executable, __file__, "--alone", name, str(workers), text, vocabulary]
        command += [output, *([folder] if folder else [])]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        measures = json.loads(done.stdout.splitlines()[-1])
        return {**measures, "records": count_records(Path(output))}


def count_records(folder: Path) -> int:
    count = 0
    for path in folder.glob("train*.tfrecord"):
        with path.open("rb") as file:
            while length := file.read(8):
                file.seek(4 + int.from_bytes(length, "little") + 4, os.SEEK_CUR)
                count += 1
    return count


def one_sentence_a_line(paths: list[str], path: Path, *, megabytes: float | None) -> None:
    """Writes the corpus up to the end of the document in which it reaches `megabytes`."""
    from tfrecords_tools.corpus import read_documents
    from tfrecords_tools.tokens import splitter

    split, size = splitter("en"), 0
    with path.open("w", encoding="utf-8") as file:
        for document in read_documents(paths, stage="split sentences"):
            lines = [sentence for line in document for sentence in split(line)]
            size += file.write("\n".join(lines) + "\n\n")
            if megabytes and size >= megabytes * 1e6:
                return


def compare(text: str, vocabulary: str, runs: dict, *, rounds: int) -> None:
    """Runs the writers in turn and prints the median of the rounds of each."""
    measures: dict[str, list[dict]] = {title: [] for title in runs}
    for _ in range(rounds):
        for title, (name, workers, folder) in runs.items():
            measures[title].append(measured(name, workers, text, vocabulary, folder))
    rates = {
        title: [median(each["records"] / each[of] for each in turns) for of in ("run", "processor")]
        for title, turns in measures.items()
    }
    print(f"\n{'':<24}{'records':>9}{'seconds':>9}{'records/s':>11}{'ratio':>7}", end="")
    print(f"{'/processor s':>14}{'ratio':>7}{'start s':>9}{'peak MB':>9}")
    last_rates = list(rates.values())[-1]
    for title, turns in measures.items():
        print(f"{title:<24}{turns[0]['records']:>9,}", end="")
        print(f"{median(each['run'] for each in turns):>9.2f}", end="")
        for rate, last, width in zip(rates[title], last_rates, (11, 14), strict=True):
            print(f"{rate:>{width},.0f}{rate / last:>7.1f}", end="")
        print(f"{median(each['start'] for each in turns):>9.2f}", end="")
        print(f"{max(each['memory'] for each in turns) / 1e6:>9.0f}", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        name, workers, *arguments = sys.argv[2:]
        run_alone(name, int(workers), arguments)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", nargs="+", help="text files with a blank line between documents")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--original", help="a folder with google-research/bert")
    parser.add_argument("--tf-models", help="a folder that contains official/")
    parser.add_argument("--megabytes", type=float, help="of the text (default: all of it)")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    runs = {f"ours, {n} worker{'s' * (n > 1)}": ("ours", n, None) for n in arguments.workers}
    runs["ours, --compat google"] = ("compatible", 1, None)
    peers = {
        "tf_models": (arguments.tf_models, TF_MODELS),
        "original": (arguments.original, ORIGINAL),
    }
    for name, (folder, script) in peers.items():
        if folder and (Path(folder) / script).is_file():
            runs[name] = (name, 1, os.path.abspath(folder))
        else:
            reason = f"{folder} contains no {script}" if folder else "its folder is not named"
            print(f"{name} is skipped: {reason}")
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "text.txt"
        one_sentence_a_line(arguments.text, text, megabytes=arguments.megabytes)
        size = text.stat().st_size / 1e6
        print(
            f"{size:.1f} MB, one sentence a line; {MAX_LENGTH} positions, {MAX_PREDICTIONS} "
            f"predictions, {PASSES} passes; medians of {arguments.rounds} turns"
        )
        compare(str(text), arguments.vocab, runs, rounds=arguments.rounds)
        stages = Path(__file__).with_name("stages.py")
        subprocess.run([sys.executable, stages, text, "--vocab", arguments.vocab], check=True)


if __name__ == "__main__":
    main()
