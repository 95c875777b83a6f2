"""Checks record files against their vocabulary and manifest, and counts their contents."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE, PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.repeats import Repeats, text_numbers
from tfrecords_tools.inspect.shards import Shards
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import MANIFEST, NEXT_SENTENCE
from tfrecords_tools.records.splits import HELD_OUT

MOST_FAULTS = 20  # listed in an error


def check(
    records: str | os.PathLike | Sequence[str | os.PathLike], *, vocabulary: Vocabulary
) -> dict[str, int]:
    """Verifies records and returns counts over all of them.

    Args:
        records: A folder, a glob pattern, a file, or a sequence of these.
        vocabulary: The vocabulary of the records.

    Raises:
        InputError: A file, a record or a manifest is wrong. The message names the first wrong
            record of each file.
    """
    places = [records] if isinstance(records, (str, os.PathLike)) else records
    files = every_file(places)
    shards = Shards(files, whole_folders=[p for p in places if os.path.isdir(p)])
    size_faults = {file: fault for file in files if (fault := shards.size_fault(file))}
    faults, whole = list(size_faults.values()), [file for file in files if file not in size_faults]
    counts: Counter[str] = Counter(files=len(files), manifests=len(shards.manifests))
    if whole:
        schema = common_schema(whole)
        faults += shards.faults_of_folders(schema=schema, vocabulary=vocabulary)
        faults += _read(whole, shards, counts, schema=schema, vocabulary=vocabulary)
    faults += shards.faults_of_contents()
    if len(faults) > 1:
        more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        lines = [f"{len(faults)} faults:", *faults[:MOST_FAULTS], *more]
        raise InputError("\n  ".join(lines))
    if faults:
        raise InputError(faults[0])
    return dict(counts)


def _read(
    files: list[str],
    shards: Shards,
    counts: Counter[str],
    *,
    schema: PretrainingSchema,
    vocabulary: Vocabulary,
) -> list[str]:
    """Reads all records, adds to `counts`, and returns the faults of the files."""
    faults, texts = [], {True: Repeats(), False: Repeats()}  # by whether they are held out
    with progress(stage="check", unit="record", total=shards.num_records(files)) as bar:
        for file in files:
            is_held_out, num_records = Path(file).name.startswith(HELD_OUT), 0
            try:
                for first, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                    counts.update(counted(features, vocabulary=vocabulary))
                    texts[is_held_out].add(text_numbers(features))
                    num_records = first + len(features["input_ids"])
                    bar.update(len(features["input_ids"]))
            except InputError as error:
                faults.append(str(error))
                continue
            shard = shards.promised(file)
            if shard and shard.records != num_records:
                faults.append(
                    f"{file} holds {num_records} records, but {MANIFEST} beside it says "
                    f"{shard.records}; write it again"
                )
    for repeats in texts.values():
        repeated, compared = repeats.counts()
        counts.update(repeated=repeated, compared=compared)
    leaked, compared = texts[True].shared_with(texts[False])
    counts.update(held_out_trained=leaked, held_out_compared=compared)
    return faults


def report(counts: dict[str, int], *, labels: tuple[str, str] = NEXT_SENTENCE) -> str:
    """Returns the counts as lines of text; `labels` are the meanings of the labels 0 and 1."""
    agrees = "agrees" if counts["manifests"] else "none"
    lines = [
        f"{'files':<24}{counts['files']:>12,}",
        f"{'manifest':<24}{agrees:>12}",
        f"{'records':<24}{counts['records']:>12,}",
    ]
    if "sequences" in counts:
        lines.append(f"{'sequences a record':<24}{counts['sequences'] / counts['records']:>12.2f}")
    shares = {}
    if counts.get("labels"):
        shares[labels[1]] = counts["labels_one"] / counts["labels"]
    shares["padding"] = 1 - counts["tokens"] / counts["positions"]
    if "predicted" in counts:
        replaced = counts["predicted"] - counts["masked"] - counts["kept"]
        shares |= {
            "predicted": counts["predicted"] / counts["tokens"],
            "  shown as [MASK]": counts["masked"] / counts["predicted"],
            "  shown as another": replaced / counts["predicted"],
            "  shown as it is": counts["kept"] / counts["predicted"],
        }
    shares["[UNK] in the text"] = counts["unknown"] / max(counts["text"], 1)
    shares["repeated texts"] = counts["repeated"] / counts["compared"]
    if counts["held_out_compared"]:
        shares["held out, yet trained"] = counts["held_out_trained"] / counts["held_out_compared"]
    lines += [f"{name:<24}{share:>12.2%}" for name, share in shares.items()]
    if counts["compared"] < counts["records"]:
        lines.append(f"(repeated: of a sample of {counts['compared']:,} records)")
    return "\n".join(lines)


def counted(features: dict[str, np.ndarray], *, vocabulary: Vocabulary) -> dict[str, int]:
    """Returns the counts of a batch; features that are absent are not counted."""
    ids, is_real = features["input_ids"], features["input_mask"] == 1
    is_text = is_real & (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
    counts = {
        "records": len(ids),
        "positions": ids.size,
        "tokens": is_real.sum(),
        "text": is_text.sum(),
        "unknown": (is_text & (ids == vocabulary.unk_id)).sum(),
    }
    if WEIGHTS_FEATURE in features:
        answers, is_counted = features["masked_lm_ids"], features[WEIGHTS_FEATURE] > 0
        shown = np.take_along_axis(ids, features["masked_lm_positions"], axis=1)
        counts |= {
            "predicted": is_counted.sum(),
            "masked": (is_counted & (shown == vocabulary.mask_id)).sum(),
            "kept": (is_counted & (shown == answers)).sum(),
        }
    if LABEL_FEATURE in features:
        counts |= {
            "labels": is_labelled(features).sum(),
            "labels_one": features[LABEL_FEATURE].sum(),
        }
    if "sequence_ids" in features:
        counts["sequences"] = features["sequence_ids"].max(axis=1).sum()
    return {name: int(count) for name, count in counts.items()}
