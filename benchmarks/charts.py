"""Draws the charts of docs/benchmarks, whose tables have the same figures.

python benchmarks/charts.py docs/images/benchmarks
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

MARKERS = ("o", "s", "D") * 2
SPREAD = np.array((-0.45, 0.45))  # of the height of a lane
WIDTH = 5.4  # inches; on a screen of 390 pixels, 12 points are 11 pixels
AVX512, AMX, AVX2 = "AVX-512", "AMX", "AVX2"
LOOKS = {"BiLSTM": 2, "left to right": 1, "random": 2, "BERT": 0, "pretrained": 0, "no NSP": 0}
LOOKS |= {AVX512: 3, AMX: 4, AVX2: 5}
DOCS = Path(__file__).parents[1] / "docs"
REPRODUCED = DOCS / "benchmarks" / "archive" / "ablations"
STYLE = DOCS / "tutorials" / "data" / "charts.mplstyle"

# Row -> series -> a value, or the smallest and the largest one, or a list of seeds.
FORWARD = {
    "KerasHub": {AVX512: (0.84, 0.89), AMX: (0.76, 0.85), AVX2: (0.87, 0.97)},
    "transformers": {AVX512: (0.45, 0.50), AMX: (0.90, 1.06), AVX2: (0.62, 1.03)},
    "ONNX Runtime": {AVX512: (0.68, 1.21), AMX: (0.79, 1.29), AVX2: (0.83, 1.48)},
}
TRAINING = {
    "step of base,\nKerasHub with XLA": {AVX512: 0.92, AMX: 0.92, AVX2: 0.90},
    "step of base,\ntransformers": {AVX512: 0.52, AMX: 0.98, AVX2: 0.80},
    "step of tiny,\nKerasHub with XLA": {AVX512: 0.93, AVX2: 0.92},
    "step of tiny,\ntransformers": {AVX512: 0.93, AVX2: 0.75},
    "epoch of SST-2,\ntransformers": {AVX512: 0.58, AMX: 1.25, AVX2: 1.11},
    "epoch of MRPC,\ntransformers": {AVX512: 0.71, AMX: 1.10, AVX2: 1.02},
    "first step,\nKerasHub": {AVX512: 0.40},
    "first step,\ntransformers": {AVX512: 1.62, AVX2: 1.12},
}
LITERT = {
    "1 x 16 tokens": {"int8": 0.22, "float32": 0.58},
    "1 x 64 tokens": {"int8": 0.25, "float32": 0.80},
    "1 x 128 tokens": {"int8": 0.25, "float32": 0.78},
    "8 x 128 tokens": {"int8": 0.31, "float32": 0.94},
    "1 x 512 tokens": {"int8": 0.34, "float32": 0.96},
}
SENTENCES = {
    "encode, 1 text": {AVX512: 0.63, AVX2: 0.62},
    "encode, 32 texts": {AVX512: 0.45, AVX2: 0.86},
    "encode, 256 texts": {AVX2: 0.78},
    "encode, 1,000 texts": {AVX512: 0.36},
    "step of stsb": {AVX512: 0.42, AVX2: 0.66},
    "step of mnli": {AVX512: 0.49},
}
GPU_SCORES = {
    "MNLI": {"BERT": 0.614, "left to right, no NSP": 0.513, "random weights": 0.496},
    "QNLI": {"BERT": 0.795, "random weights": 0.587},
    "SST-2": {"BERT": 0.921, "random weights": 0.862},
    "NER (F1)": {"BERT": 0.393, "left to right, no NSP": 0.262, "random weights": 0.195},
    "parts of speech": {"BERT": 0.973, "random weights": 0.931},
    "BLiMP": {"BERT": 0.680, "left to right, no NSP": 0.635, "random weights": 0.548},
}
STEPS = (3, 5, 10, 20, 40, 60, 80, 100)  # percent
COUNTS = (100, 300, 1_000, 3_000)
LABELS = {
    "accuracy on parts of speech": {
        "pretrained": (0.860, 0.900, 0.926, 0.944),
        "random weights": (0.701, 0.777, 0.856, 0.913),
    },
    "F1 on named entities": {
        "pretrained": (0.038, 0.076, 0.190, 0.225),
        "random weights": (0.021, 0.037, 0.064, 0.126),
    },
}
TEXTS = {
    "accuracy on QNLI": {
        "pretrained": (0.552, 0.557, 0.579, 0.585, 0.597),
        "random weights": (0.544, 0.541, 0.546, 0.560, 0.589),
    },
    "accuracy on SST-2": {
        "pretrained": (0.584, 0.617, 0.667, 0.735, 0.802),
        "random weights": (0.571, 0.591, 0.685, 0.739, 0.799),
    },
    "accuracy on MNLI": {
        "pretrained": (0.350, 0.353, 0.360, 0.419, 0.489),
        "random weights": (0.359, 0.369, 0.366, 0.410, 0.474),
    },
}
MNLI = {
    "accuracy on MNLI": {
        "paper, BERT": (0.786, 0.796, 0.805, 0.822, 0.832, 0.840, 0.843, 0.844),
        "paper, left to right": (0.794, 0.798, 0.803, 0.810, 0.817, 0.819, 0.821, 0.822),
        "small model, BERT": (0.482, 0.517, 0.524, 0.602, 0.594, 0.599, 0.601, 0.619),
        "small model, left to right": (0.513,),
        "small model, random weights": (0.496,) * 8,
    }
}
RECORDS = {
    "bert_keras": {"2 workers": 32, "1 worker": 22},
    "google-research/bert": {"1 process": 1},
}
SERVER = {
    "LiteRT int8": {"1 client": 122, "4 clients": 182, "16 clients": 250, "64 clients": 264},
    "ONNX Runtime int8": {"1 client": 127, "4 clients": 113, "16 clients": 144, "64 clients": 117},
    "LiteRT": {"1 client": 54, "4 clients": 70, "16 clients": 88, "64 clients": 93},
    "SavedModel": {"1 client": 39, "4 clients": 69, "16 clients": 83, "64 clients": 96},
}
GPU = {
    "bert_keras": {
        "large,\n128 tokens": 44.8,
        "large,\n512 tokens": 38.7,
        "base,\n128 tokens": 39.8,
    },
    "transformers": {
        "large,\n128 tokens": 38.2,
        "large,\n512 tokens": 36.4,
        "base,\n128 tokens": 32.3,
    },
}


def above_bert(table: str, column: str, arm: str, source: str = "seeds"):
    """Points of each seed above the mean of BERT's seeds, or of the paper above its BERT."""
    cells = json.loads((REPRODUCED / table / "results.json").read_text("utf-8"))["cells"]
    scores = {cell["arm"]: cell[source] for cell in cells if cell["column"] == column}
    return np.subtract(scores[arm], np.mean(scores["BERT"])).tolist()


def look(name: str, index: int) -> dict:
    """A colour and marker for a kind of model or processor; hollow: random weights, the paper."""
    index = next((place for word, place in LOOKS.items() if word in name), index)
    is_hollow = "paper" in name or "random" in name
    return {
        "color": f"C{index}",
        "marker": MARKERS[index],
        "markersize": 8,
        "markeredgewidth": 2 * is_hollow,
        "fillstyle": "none" if is_hollow else "full",
    }


def dots(
    rows: dict,
    *,
    xlabel: str,
    digits: int | None = None,
    line: float | None = None,
    end: float | None = None,
):
    """A row of markers with their values for each key; a colour and marker for each series.

    Numbers stand to the left of a marker where they would cross `line` or the `end` of the axis.
    """
    limit = line if end is None else end
    series = list(dict.fromkeys(name for values in rows.values() for name in values))
    lane = 0.85 / len(series)
    height = 0.22 if digits else 0.3  # seeds are drawn below each other
    height = max(0.55 if any("\n" in name for name in rows) else 0.42, height * len(series))
    numbers = [number for values in rows.values() for number in values.values()]
    span = np.ptp(np.hstack([*numbers, [] if line is None else line]))
    figure, axes = plt.subplots(figsize=(WIDTH, 1.4 + height * len(rows)))
    for index, name in enumerate(series):
        marks = look(name, index)
        shift = lane * (index - (len(series) - 1) / 2)
        for place, values in enumerate(rows.values()):
            if name not in values:
                continue
            value = values[name]
            if isinstance(value, list):  # the mean as a bar, the seeds below each other
                bar = place + shift + lane * SPREAD
                axes.plot([np.mean(value)] * 2, bar, color=marks["color"], linewidth=2.5)
                reach = 0.4 * lane * (len(value) > 1)
                heights = place + shift + np.linspace(-reach, reach, len(value))
                axes.plot(value, heights, linestyle="none", **marks | {"markersize": 5})
                continue
            ends = value if isinstance(value, tuple) else (value,)
            axes.plot(ends, [place + shift] * len(ends), linewidth=3, **marks)
            if digits is None:
                continue
            text = "–".join(f"{end:.{digits}f}" for end in ends)
            room = 0.04 * span * (len(text) + 1)
            is_left = limit is not None and ends[-1] < limit < ends[-1] + room
            axes.update_datalim([(ends[0] - room if is_left else ends[-1] + room, place)])
            axes.annotate(
                text,
                (ends[0 if is_left else -1], place + shift),
                xytext=(-8 if is_left else 8, 0),
                textcoords="offset points",
                horizontalalignment="right" if is_left else "left",
                verticalalignment="center",
            )
        axes.plot([], [], linestyle="none", label=name, **marks)
    dark = plt.rcParams["text.color"]
    for place in range(1, len(rows)):
        axes.axhline(place - 0.5, color=dark, linewidth=0.4)
    if line is not None:
        axes.axvline(line, color=dark, linestyle="--", linewidth=1.5, zorder=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.margins(x=0.05)
    if end is not None:
        axes.set_xlim(right=end)
    return finished(figure, axes, xlabel=xlabel)


def bars(rows: dict, *, xlabel: str):
    """Horizontal bars with their values, one colour for each key of `rows`."""
    groups = list(dict.fromkeys(name for values in rows.values() for name in values))
    series = {group: [name for name in rows if group in rows[name]] for group in groups}
    num_bars = sum(map(len, series.values()))
    width = 0.8 / max(map(len, series.values()))
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.3 * num_bars + 0.1 * len(groups)))
    for name, values in rows.items():
        places = [
            groups.index(group) + width * (series[group].index(name) - (len(series[group]) - 1) / 2)
            for group in values
        ]
        drawn = axes.barh(places, list(values.values()), width, label=name)
        is_whole = all(isinstance(value, int) for value in values.values())
        axes.bar_label(drawn, fmt="{:,.0f}" if is_whole else "{:,.1f}", padding=4)
    axes.set_yticks(range(len(groups)), groups)
    axes.margins(x=0.25)
    axes.xaxis.set_major_formatter("{x:,.6g}")
    return finished(figure, axes, xlabel=xlabel)


def lines(panels: dict, places: tuple, *, xlabel: str):
    """A panel of lines for each title, with the name of each line above or below its end."""
    size = (WIDTH, 1.4 + 2.6 * len(panels))
    figure, grid = plt.subplots(len(panels), figsize=size, sharex=True, squeeze=False)
    for axes, (title, rows) in zip(grid.flat, panels.items(), strict=True):
        for index, (name, values) in enumerate(rows.items()):
            marks = look(name, index)
            is_below = name.endswith("random weights") or name == "paper, left to right"
            style = "--" if marks["fillstyle"] == "none" else "-"
            if len({*values}) < len(values):  # a reference, not measured at each place
                marks["marker"] = ""
            axes.plot(places[-len(values) :], values, linestyle=style, linewidth=3, **marks)
            axes.annotate(
                name,
                (places[-1], min(values[-2:]) if is_below else values[-1]),
                xytext=(6, -15 if is_below else 10),
                textcoords="offset points",
                horizontalalignment="right",
                verticalalignment="top" if is_below else "bottom",
                color=marks["color"],
            )
        axes.set_xscale("log")
        ticks = [place for place in places if place != 80]  # too near to 100
        axes.set_xticks(ticks, [f"{place:,}" for place in ticks])
        axes.minorticks_off()
        axes.margins(y=0.18)
        axes.set_title(title)
    figure.supxlabel(xlabel)
    return figure


def finished(figure, axes, *, xlabel: str):
    axes.invert_yaxis()
    figure.supxlabel(xlabel)
    axes.tick_params(axis="y", length=0)
    is_wide = abs(np.subtract(*axes.get_xlim())) > 5
    axes.locator_params(axis="x", nbins=8 if "points" in xlabel else 5, integer=is_wide)
    names = axes.get_legend_handles_labels()[1]
    columns = len(names) if len("".join(names)) < 36 else 1
    if len(names) > 1:
        figure.legend(loc="outside upper center", ncols=columns, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    ratio = "time of bert_keras / time of the other library\nleft of 1: bert_keras is faster"
    points = {
        "xlabel": "percentage points above the mean of BERT\n"
        "left of 0: below BERT; bars: means of the seeds",
        "line": 0,
    }
    ablations = {
        column: {
            f"{size}, {name}": above_bert("table5", column, arm, source)
            for name, arm in (("no NSP", "No NSP"), ("left to right, no NSP", "LTR & No NSP"))
            for size, source in (("paper", "paper"), ("small model", "seeds"))
        }
        for column in ("MNLI-m", "QNLI", "MRPC", "SST-2")
    }
    arms = {
        "BERT": "BERT",
        "left to right, no NSP": "LTR & No NSP",
        "left to right with BiLSTM": "+ BiLSTM",
    }
    words = {
        column: {name: above_bert("table5", column, arm) for name, arm in arms.items()}
        for column in ("NER", "parts of speech")
    }
    mpl.use("svg")
    with plt.style.context([STYLE, {"svg.fonttype": "path", "svg.hashsalt": "bert_keras"}]):
        charts = {
            "forward": dots(FORWARD, xlabel=ratio, digits=2, line=1),
            "training": dots(TRAINING, xlabel=ratio, digits=2, line=1),
            "records": bars(RECORDS, xlabel="records per second (google-research/bert = 1)"),
            "server": bars(SERVER, xlabel="sentences per second, two cores with AVX-512"),
            "int8": dots(
                LITERT,
                xlabel="time / time of the SavedModel, two cores with AVX-512\nleft of 1: faster",
                digits=2,
                line=1,
            ),
            "sentences": dots(SENTENCES, xlabel=ratio, digits=2, line=1),
            "ablations": dots(ablations, **points),
            "words": dots(words, **points),
            "gpu-scores": dots(GPU_SCORES, xlabel="accuracy; for NER, F1", digits=3, end=1),
            "labels": lines(LABELS, COUNTS, xlabel="labelled sentences (logarithmic scale)"),
            "labels-texts": lines(
                TEXTS, (*COUNTS, 10_000), xlabel="labelled examples (logarithmic scale)"
            ),
            "steps": lines(
                MNLI, STEPS, xlabel="percent of the pretraining steps\n(logarithmic scale)"
            ),
            "gpu": bars(GPU, xlabel="percent of the peak of the H100, 989 TFLOP/s"),
        }
        for name, figure in charts.items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
