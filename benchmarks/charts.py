"""Draws the charts of docs/benchmarks, whose tables have the same figures.

python benchmarks/charts.py docs/images/benchmarks
"""

import argparse
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

TEXT = "#727ea0"  # legible on white and on dark pages, as the three colours
COLOURS = ("#5c6bc0", "#ef6c00", "#26a69a")
MARKERS = ("o", "s", "D")
AVX512, AMX, AVX2 = "AVX-512", "AMX", "AVX2"
STYLE = {
    "axes.edgecolor": TEXT,
    "axes.labelcolor": TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 12,
    "font.weight": "bold",
    "svg.fonttype": "path",
    "svg.hashsalt": "bert_keras",
    "text.color": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
}

# Row -> series -> a value, or the smallest and the largest one.
FORWARD = {
    "KerasHub": {AVX512: (0.84, 0.89), AMX: (0.76, 0.85), AVX2: (0.87, 0.97)},
    "transformers": {AVX512: (0.45, 0.50), AMX: (0.90, 1.06), AVX2: (0.62, 1.03)},
    "ONNX Runtime": {AVX512: (0.89, 1.16), AMX: (0.79, 1.29), AVX2: (0.83, 1.48)},
}
TRAINING = {
    "step of base,\nKerasHub with XLA": {AVX512: 0.92, AMX: 0.92, AVX2: 0.90},
    "step of base,\ntransformers": {AVX512: 0.52, AMX: 0.98, AVX2: 0.80},
    "step of tiny,\nKerasHub with XLA": {AVX512: 0.93, AVX2: 0.92},
    "step of tiny,\ntransformers": {AVX2: 0.75},
    "epoch of SST-2,\ntransformers": {AVX512: 0.58, AMX: 1.25, AVX2: 1.11},
    "epoch of MRPC,\ntransformers": {AVX512: 0.71, AMX: 1.10, AVX2: 1.02},
    "first step,\ntransformers": {AVX512: (1.18, 1.25), AVX2: 1.12},
}
INT8 = {
    "1x16": {"int8": 0.51, "bfloat16": 0.90},
    "1x128": {"int8": 0.55, "bfloat16": 0.68},
    "1x512": {"int8": 0.44, "bfloat16": 0.58},
    "8x128": {"int8": 0.42, "bfloat16": 0.56},
}
SENTENCES = {
    "encode, 1 text": {AVX512: 0.63, AVX2: 0.62},
    "encode, 32 texts": {AVX512: 0.45, AVX2: 0.86},
    "encode, 256 texts": {AVX2: 0.78},
    "encode, 1,000 texts": {AVX512: 0.36},
    "step of stsb": {AVX512: 0.42, AVX2: 0.66},
    "step of mnli": {AVX512: 0.49},
}
ABLATIONS = {
    "MNLI, No NSP": {"paper": -0.005, "small model": -0.001},
    "MNLI, left to right": {"paper": -0.023, "small model": 0.003},
    "QNLI, No NSP": {"paper": -0.035, "small model": -0.021},
    "QNLI, left to right": {"paper": -0.041, "small model": -0.023},
    "MRPC, No NSP": {"paper": -0.002, "small model": 0.008},
    "MRPC, left to right": {"paper": -0.092, "small model": 0.030},
    "SST-2, No NSP": {"paper": -0.001, "small model": 0.011},
    "SST-2, left to right": {"paper": -0.006, "small model": 0.026},
    "SQuAD, No NSP": {"paper": -0.006, "small model": 0.002},
    "SQuAD, left to right": {"paper": -0.107, "small model": 0.042},
}
WORDS = {
    "NER": {"left to right": -0.030, "with a BiLSTM": 0.010},
    "parts of speech": {"left to right": -0.036, "with a BiLSTM": 0.001},
}
GPU_SCORES = {
    "MNLI": {"BERT": 0.614, "left to right": 0.513, "random weights": 0.496},
    "QNLI": {"BERT": 0.795, "random weights": 0.587},
    "SST-2": {"BERT": 0.921, "random weights": 0.862},
    "NER": {"BERT": 0.393, "left to right": 0.262, "random weights": 0.195},
    "parts of speech": {"BERT": 0.973, "random weights": 0.931},
    "BLiMP": {"BERT": 0.680, "left to right": 0.635, "random weights": 0.548},
}
STEPS = (3, 5, 10, 20, 40, 60, 80, 100)  # percent
MNLI = {
    "paper, BERT": (78.6, 79.6, 80.5, 82.2, 83.2, 84.0, 84.3, 84.4),
    "paper, left to right": (79.4, 79.8, 80.3, 81.0, 81.7, 81.9, 82.1, 82.2),
    "small, BERT": (48.2, 51.7, 52.4, 60.2, 59.4, 59.9, 60.1, 61.9),
    "small, left to right": (51.3,),
}
RECORDS = {
    "records/s": {
        "2 workers": 109_282,
        "1 worker": 69_898,
        "1 worker, --compat google": 44_070,
        "google-research/bert": 2_925,
    }
}
SERVER = {
    "bert-keras serve": {
        "1 client": 43.7,
        "4 clients": 58.2,
        "16 clients": 76.1,
        "64 clients": 79.9,
    },
    "same model in one process": {"4 clients": 80.5, "16 clients": 90.8, "64 clients": 84.9},
    "one padded text at a time": {
        "1 client": 15.4,
        "4 clients": 14.8,
        "16 clients": 14.3,
        "64 clients": 14.6,
    },
}
GPU = {
    "bert_keras": {"large, 128": 44.8, "large, 512": 38.7, "base, 128": 39.8},
    "transformers": {"large, 128": 38.2, "large, 512": 36.4, "base, 128": 32.3},
}


def dots(rows: dict, *, label: str, line: float | None = None):
    """One row of markers for each key, one colour and marker for each series."""
    series = list(dict.fromkeys(name for values in rows.values() for name in values))
    figure, axes = plt.subplots(figsize=(5.2, 1.5 + 0.42 * len(rows)))
    for index, name in enumerate(series):
        look = {"color": COLOURS[index], "marker": MARKERS[index], "markersize": 8}
        shift = 0.2 * (index - (len(series) - 1) / 2)
        for place, values in enumerate(rows.values()):
            if name in values:
                axes.plot(
                    values[name],
                    [place + shift] * (1 + isinstance(values[name], tuple)),
                    linewidth=3,
                    **look,
                )
        axes.plot([], [], linestyle="none", label=name, **look)
    for place in range(1, len(rows)):
        axes.axhline(place - 0.5, color=TEXT, linewidth=0.4)
    if line is not None:
        axes.axvline(line, color=TEXT, linestyle="--", linewidth=1.5)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    return finished(figure, axes, label=label, columns=len(series))


def bars(rows: dict, *, label: str):
    """Horizontal bars with their values, one colour for each key of `rows`."""
    groups = list(dict.fromkeys(name for values in rows.values() for name in values))
    width = 0.8 / len(rows)
    figure, axes = plt.subplots(figsize=(5.2, 1.5 + 0.42 * len(groups) * max(1, 0.6 * len(rows))))
    for index, (name, values) in enumerate(rows.items()):
        places = [groups.index(group) + width * (index - (len(rows) - 1) / 2) for group in values]
        drawn = axes.barh(places, list(values.values()), width, color=COLOURS[index], label=name)
        axes.bar_label(drawn, fmt="{:,.6g}", padding=4)
    axes.set_yticks(range(len(groups)), groups)
    axes.margins(x=0.16)
    axes.xaxis.set_major_formatter("{x:,.6g}")
    return finished(figure, axes, label=label, columns=1 if len(rows) > 2 else len(rows))


def lines(rows: dict, places: tuple, *, label: str):
    """One line for each key, whose values end at the last place of a logarithmic axis."""
    figure, axes = plt.subplots(figsize=(5.2, 3.8))
    for index, (name, values) in enumerate(rows.items()):
        axes.plot(
            places[-len(values) :],
            values,
            color=COLOURS[index % 2],
            linestyle="--" if name.startswith("paper") else "-",
            marker=MARKERS[index % 2],
            markersize=8,
            linewidth=3,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xticks(places, ["" if place == 80 else place for place in places])
    axes.minorticks_off()
    figure.supxlabel(label, fontsize=11, fontweight="bold")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    return figure


def finished(figure, axes, *, label: str, columns: int):
    axes.invert_yaxis()
    figure.supxlabel(label, fontsize=11, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        figure.legend(loc="outside upper center", ncols=columns, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    ratio = "time of bert_keras / time of the other library\nleft of 1: bert_keras is faster"
    mpl.use("svg")
    with mpl.rc_context({**STYLE, "figure.constrained_layout.use": True}):
        charts = {
            "forward": dots(FORWARD, label=ratio, line=1),
            "training": dots(TRAINING, label=ratio, line=1),
            "records": bars(RECORDS, label="records a second"),
            "server": bars(SERVER, label="texts a second"),
            "int8": dots(
                INT8, label="time / time of float32\nleft of 1: faster than float32", line=1
            ),
            "sentences": dots(SENTENCES, label=ratio, line=1),
            "ablations": dots(
                ABLATIONS, label="score - score of BERT\nleft of 0: worse than BERT", line=0
            ),
            "words": dots(WORDS, label="score - score of BERT\nleft of 0: worse than BERT", line=0),
            "gpu-scores": dots(GPU_SCORES, label="score on the dev set"),
            "steps": lines(MNLI, STEPS, label="accuracy on MNLI, by percent of the steps"),
            "gpu": bars(GPU, label="% of 989 TFLOP/s, by size and tokens"),
        }
        for name, figure in charts.items():
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
