"""Checks record files against their vocabulary and manifest, and counts their contents."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_keras.data.records import common_schema
from bert_keras.data.schema import LABEL_FEATURE, WEIGHTS_FEATURE, PretrainingSchema
from bert_keras.errors import InputError, counted
from bert_keras.progress import progress
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.repeats import Repeats, text_hashes
from tfrecords_tools.inspect.shards import Shards
from tfrecords_tools.inspect.verify import every_file, is_labelled, verified_batches
from tfrecords_tools.manifest import MANIFEST, NEXT_SENTENCE
from tfrecords_tools.records.splits import HELD_OUT

MAX_PROBLEMS = 20  # listed in an error


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
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    files = every_file(paths)
    shards = Shards(files, folders=[path for path in paths if os.path.isdir(path)])
    size_problems = {file: problem for file in files if (problem := shards.size_problem(file))}
    problems = list(size_problems.values())
    counts: Counter[str] = Counter(files=len(files), manifests=len(shards.manifests))
    if complete_files := [file for file in files if file not in size_problems]:
        schema = common_schema(complete_files)
        problems += shards.folder_problems(schema=schema, vocabulary=vocabulary)
        problems += _read(complete_files, shards, counts, schema=schema, vocabulary=vocabulary)
    problems += shards.content_problems()
    if len(problems) > 1:
        heading = f"{len(problems)} problems (at most {MAX_PROBLEMS} are listed):"
        problems = [heading, *problems[:MAX_PROBLEMS]]
    if problems:
        raise InputError("\n  ".join(problems))
    return dict(counts)


def _read(
    files: list[str],
    shards: Shards,
    counts: Counter[str],
    *,
    schema: PretrainingSchema,
    vocabulary: Vocabulary,
) -> list[str]:
    """Reads all records, adds to `counts`, and returns the problems of the files."""
    problems, texts = [], {True: Repeats(), False: Repeats()}  # by whether they are held out
    with progress(stage="check", unit="record", total=shards.num_records(files)) as bar:
        for file in files:
            is_held_out, num_records = Path(file).name.startswith(HELD_OUT), 0
            try:
                for first, features in verified_batches(file, schema=schema, vocabulary=vocabulary):
                    counts.update(batch_counts(features, vocabulary=vocabulary))
                    texts[is_held_out].add(text_hashes(features))
                    num_records = first + len(features["input_ids"])
                    bar.update(len(features["input_ids"]))
            except InputError as error:
                problems.append(str(error))
                continue
            shard = shards.manifest_entry(file)
            if shard and shard.records != num_records:
                problems.append(
                    f"{file} contains {counted(num_records, 'record')}, but {MANIFEST} states "
                    f"{shard.records:,}; write the records again"
                )
    for repeats in texts.values():
        repeated, compared = repeats.counts()
        counts.update(repeated=repeated, compared=compared)
    leaked, compared = texts[True].shared_with(texts[False])
    counts.update(held_out_trained=leaked, held_out_compared=compared)
    return problems


def report(counts: dict[str, int], *, labels: tuple[str, str] = NEXT_SENTENCE) -> str:
    """Returns the counts as lines of text; `labels` are the meanings of the labels 0 and 1."""
    agrees = "agrees" if counts["manifests"] else "none"
    lines = [
        f"{'files':<24}{counts['files']:>12,}",
        f"{'manifest':<24}{agrees:>12}",
        f"{'records':<24}{counts['records']:>12,}",
    ]
    if "sequences" in counts:
        lines.append(
            f"{'sequences per record':<24}{counts['sequences'] / counts['records']:>12.2f}"
        )
    rates = {}
    if counts.get("labels"):
        rates[labels[1]] = counts["labels_one"] / counts["labels"]
    rates["padding"] = 1 - counts["tokens"] / counts["positions"]
    if "predicted" in counts:
        replaced = counts["predicted"] - counts["masked"] - counts["kept"]
        rates |= {
            "predicted": counts["predicted"] / counts["tokens"],
            "  masked": counts["masked"] / counts["predicted"],
            "  replaced": replaced / counts["predicted"],
            "  kept": counts["kept"] / counts["predicted"],
        }
    rates["[UNK] in the text"] = counts["unknown"] / max(counts["text"], 1)
    rates["repeated texts"] = counts["repeated"] / counts["compared"]
    if counts["held_out_compared"]:
        rates["held out, yet trained"] = counts["held_out_trained"] / counts["held_out_compared"]
    lines += [f"{name:<24}{rate:>12.2%}" for name, rate in rates.items()]
    if counts["compared"] < counts["records"]:
        lines.append(f"(repeated texts of a sample of {counts['compared']:,} records)")
    return "\n".join(lines)


def batch_counts(features: dict[str, np.ndarray], *, vocabulary: Vocabulary) -> dict[str, int]:
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
        labels, is_counted = features["masked_lm_ids"], features[WEIGHTS_FEATURE] > 0
        inputs = np.take_along_axis(ids, features["masked_lm_positions"], axis=1)
        counts |= {
            "predicted": is_counted.sum(),
            "masked": (is_counted & (inputs == vocabulary.mask_id)).sum(),
            "kept": (is_counted & (inputs == labels)).sum(),
        }
    if LABEL_FEATURE in features:
        counts |= {
            "labels": is_labelled(features).sum(),
            "labels_one": features[LABEL_FEATURE].sum(),
        }
    if "sequence_ids" in features:
        counts["sequences"] = features["sequence_ids"].max(axis=1).sum()
    return {name: int(count) for name, count in counts.items()}
