"""Compares the forward pass of an encoder with local attention and with global attention only.

Each variant runs in its own process, which states its processor time, its time and its peak memory.
The processes take turns.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

GLOBAL, MASKED, BLOCKS = "global", "masked", "blocks"  # MASKED: full matrices, BLOCKS: as in calls


def run_variant(size: str, num_layers: int, length: int, variant: str) -> None:
    """Builds the encoder; then measures one forward pass for each line of standard input."""

    import numpy as np
    import tensorflow as tf

    from bert_keras import BertEncoder
    from bert_keras.families import preset

    changes = {"num_layers": num_layers} if num_layers else {}
    if variant == GLOBAL:
        changes["local_window"] = 0
    encoder = BertEncoder(preset(size, max_positions=length, **changes))
    encoder.build()
    ids = np.random.default_rng(1).integers(5, encoder.config.vocab_size, (1, length))
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    inputs = {name: tf.constant(array, "int32") for name, array in inputs.items()}

    @tf.function
    def forward(inputs):
        if variant == MASKED:
            return encoder.states(inputs).sequence_output
        return encoder(inputs)["sequence_output"]

    forward(inputs).numpy()
    for _ in sys.stdin:
        starts = time.process_time(), time.perf_counter()
        forward(inputs).numpy()
        seconds = time.process_time() - starts[0], time.perf_counter() - starts[1]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([*seconds, memory]), flush=True)


def measure(arguments, length: int) -> None:
    command = [sys.executable, __file__, "--size", arguments.size]
    command += ["--layers", str(arguments.layers), "--lengths", str(length), "--variant"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = {v: subprocess.Popen([*command, v], **pipes) for v in (GLOBAL, MASKED, BLOCKS)}
    runs = {variant: [] for variant in processes}
    for turn in range(arguments.rounds + 1):
        for variant, process in processes.items():
            print(file=process.stdin, flush=True)
            run = json.loads(process.stdout.readline())
            if turn:  # the first turn is warm-up
                runs[variant].append(run)
    for variant, process in processes.items():
        process.communicate()
        seconds, memory = statistics.median(run[0] for run in runs[variant]), runs[variant][-1][2]
        ratios = [
            statistics.median(
                ours[kind] / full[kind]
                for ours, full in zip(runs[variant], runs[GLOBAL], strict=True)
            )
            for kind in (0, 1)
        ]
        print(
            f"{length:>6} tokens   {variant:<8}{seconds:>7.2f} s of processor time; / global: "
            f"processor time {ratios[0]:.2f}, time {ratios[1]:.2f}; peak {memory / 1e9:.2f} GB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="modernbert-base")
    parser.add_argument("--layers", type=int, default=0, help="0: all layers of the size")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for length in arguments.lengths:
        if arguments.variant:
            run_variant(arguments.size, arguments.layers, length, arguments.variant)
        else:
            measure(arguments, length)


if __name__ == "__main__":
    main()
