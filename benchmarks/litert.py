"""Compares exported models in this process: SavedModel, LiteRT, ONNX Runtime and OpenVINO.

The inputs are token ids. In each round, every runtime makes some runs after a pause, and its time
is their mean. The table has the median of the rounds and its quartiles, and the ratio of the times
of each round. OpenVINO is left out where it is not installed; its int8 needs nncf, too.

    python benchmarks/litert.py                # base, float32 and int8
    python benchmarks/litert.py --size mini --shapes 1x16 --rounds 3
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from serving_models import (
    LITERT,
    LITERT_INT8,
    ONNX,
    ONNX_FILES,
    ONNX_INT8,
    OURS,
    PLAIN_ONNX,
    SAVED_MODEL,
    check_onnx_packages,
    write_models,
)

from bert_keras.arguments import run_command
from bert_keras.config import BertConfig
from bert_keras.families import preset, presets
from bert_keras.kinds.kind import softmax
from bert_keras.serving.versions import open_model
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

SHAPES = ["1x16", "1x64", "1x128", "8x128", "1x512"]
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OPENVINO, OPENVINO_INT8 = "openvino", "openvino-int8"
RIVALS = {SAVED_MODEL: ONNX, LITERT: ONNX, LITERT_INT8: ONNX_INT8}
NUM_RUNS = 5  # of a round
PAUSE = 0.25  # seconds; threads of the preceding runtime still spin
SEED = 1

Run = Callable[[dict[str, np.ndarray]], np.ndarray]  # inputs of ours -> probabilities


def onnx_inputs(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    return {
        name: array.astype(np.int64) for name, array in zip(names, inputs.values(), strict=True)
    }


def ours(path: Path) -> Run:
    model = open_model(path / "1")
    return lambda inputs: model.predict("tensors", inputs)["probabilities"]


def onnx_runtime(path: Path, *, num_threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(path, options)
    return lambda inputs: softmax(session.run(None, onnx_inputs(inputs))[0])


def openvino_runs(path: Path, inputs: dict[str, np.ndarray], *, num_threads: int) -> dict[str, Run]:
    if not find_spec("openvino"):
        print("without OpenVINO: it is not installed")
        return {}
    import openvino

    model = openvino.Core().read_model(path)
    models = {OPENVINO: model}
    if find_spec("nncf"):
        import nncf

        calibration = nncf.Dataset([onnx_inputs(inputs)])
        transformer = nncf.ModelType.TRANSFORMER
        models[OPENVINO_INT8] = nncf.quantize(model, calibration, model_type=transformer)
    else:
        print("without int8 of OpenVINO: nncf is not installed")
    options = {"INFERENCE_NUM_THREADS": num_threads, "INFERENCE_PRECISION_HINT": "f32"}

    def compiled(model: openvino.Model) -> Run:
        request = openvino.compile_model(model, "CPU", options).create_infer_request()
        return lambda inputs: softmax(request.infer(onnx_inputs(inputs))[0])

    return {name: compiled(each) for name, each in models.items()}


def token_ids(config: BertConfig, shape: str) -> dict[str, np.ndarray]:
    rows, length = map(int, shape.split("x"))
    ids = np.random.default_rng(SEED).integers(len(TOKENS), config.vocab_size, (rows, length))
    ids[:, 0], ids[:, -1] = TOKENS.index("[CLS]"), TOKENS.index("[SEP]")
    zeros = np.zeros_like(ids)
    arrays = {"input_ids": ids, "input_mask": zeros + 1, "segment_ids": zeros}
    return {name: array.astype(np.int32) for name, array in arrays.items()}


def show(shape: str, runs: dict[str, Run], inputs: dict[str, np.ndarray], rounds: int) -> None:
    outputs = {name: run(inputs) for name, run in runs.items()}  # a warm-up, too
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            for _ in range(NUM_RUNS):
                run(inputs)
            times[name].append(1000 * (time.perf_counter() - start) / NUM_RUNS)
    for name, values in times.items():
        first, median, third = np.percentile(values, (25, 50, 75))
        difference = np.abs(outputs[name] - outputs[SAVED_MODEL]).max()
        ratio = ""
        if rival := RIVALS.get(name):
            quartiles = np.percentile(np.divide(values, times[rival]), (25, 50, 75))
            ratio = "{1:.2f} ({0:.2f} to {2:.2f}) of ".format(*quartiles) + rival
        print(
            f"{shape:<8}{name:<16}{median:>10.2f} ms  ({first:.2f} to {third:.2f})"
            f"{difference:>12.0e}   {ratio}",
            flush=True,
        )


def measure(arguments: argparse.Namespace, scratch: Path) -> None:
    check_onnx_packages()
    config, num_threads = preset(arguments.size), arguments.threads
    # TensorFlow and LiteRT take a thread for each processor of the process.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:num_threads])
    unused = (f"[unused{number}]" for number in range(config.vocab_size - len(TOKENS)))
    tokenizer = WordPieceTokenizer(Vocabulary((*TOKENS, *unused)), lowercase=True)
    names = (*OURS, *ONNX_FILES)
    write_models(config, scratch, names, tokenizer=tokenizer, max_length=config.max_positions)
    inputs = {shape: token_ids(config, shape) for shape in arguments.shapes}
    onnx = scratch / ONNX
    runs = {
        **{name: ours(scratch / name) for name in OURS},
        **{
            name: onnx_runtime(onnx / file, num_threads=num_threads)
            for name, file in ONNX_FILES.items()
        },
        **openvino_runs(onnx / PLAIN_ONNX, inputs[arguments.shapes[0]], num_threads=num_threads),
    }
    print(f"{arguments.size}, {num_threads} threads; load {os.getloadavg()[0]:.1f}")
    print(f"{'shape':<8}{'model':<16}{'median':>13}  (quartiles)   difference from the SavedModel")
    for shape, each in inputs.items():
        show(shape, runs, each, arguments.rounds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", choices=presets())
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="texts x tokens, such as 8x128")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return run_command("litert.py", lambda: measure(arguments, Path(scratch)))


if __name__ == "__main__":
    sys.exit(main())
