"""The command line `bert-tfrecords`: from text to pretraining records and back to text."""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

from bert_keras.arguments import Argument, Program, count, flag, option, required
from bert_keras.data.masking import REPLACEMENTS
from bert_keras.errors import InputError, counted, print_field, printable
from bert_keras.files import check_output, is_stdout, messages_beside, refuse_existing, write_text
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from
from tfrecords_tools.settings import LABEL_NAMES, BuildSettings, GoogleSettings, vocabulary_of_files

PROGRAM = Program(
    "bert-tfrecords",
    description="Write, check and show pretraining records (masked words, next sentence).",
    epilog="""\
examples:
  bert-tfrecords vocab corpus.txt --output vocab.txt --size 30000
  bert-tfrecords build corpus.txt --vocab vocab.txt --output records --held-out 0.02

A corpus is files, folders or globs of text, wikiextractor output, JSON lines or parquet, compressed
or not. In text, a blank line or the end of a file ends a document.
""",
)
command, command_parser, main = PROGRAM.command, PROGRAM.parser, PROGRAM.main

CORPUS = option("files", "CORPUS", "text files, folders or globs, see --help", nargs="+")
RECORDS = (
    option("files", "RECORDS", "folder of records, or record files", nargs="+"),
    option("--vocab", "FILE", "vocabulary of the records (default: the file in their folder)"),
)
FLAGS = (
    flag("--cased", "keep upper case and accents"),
    option("--workers", "N", "maximum number of processes (default: all cores)", type=count),
)
MODELS = ("wordpiece", "bpe", "unigram")
SETTINGS = [each for each in fields(BuildSettings) if each.name != "lowercase"]  # --cased sets it
CHOICES = {"objective": LABEL_NAMES, "replacement": REPLACEMENTS}


def _build_options() -> Iterator[Argument]:
    """Yields an option for each setting; the value of an option that is not given is None."""
    for each in SETTINGS:
        value_type = each.type if isinstance(each.type, type) else get_args(each.type)[0]
        name = "--" + each.name.replace("_", "-").replace("held-out-rate", "held-out")
        default = "" if each.default is None else f" (default: {each.default})"
        details = {"help": each.metadata["help"] + default, "dest": each.name}
        if choices := (*CHOICES.get(each.name, ()),):
            yield option(name, "|".join(choices), choices=choices, **details)
        else:
            metavar = {int: "N", float: "RATE", str: "NAME"}[value_type]
            yield option(name, metavar, type=value_type, **details)


@command(
    CORPUS,
    required("-o --output", "FILE", "vocab.txt for wordpiece, otherwise tokenizer.json, to write"),
    option("--model-type", "NAME", ", ".join(MODELS), "wordpiece", choices=MODELS),
    option("--size", "N", "maximum number of tokens", 30000),
    option("--unused", "N", "tokens [unusedN] for later (default: 100 for wordpiece)", type=int),
    option("--segmenter", "NAME", "function that finds morphemes in words, as module:function"),
    option("--text-field", "NAME", "field of JSON or parquet with the text", "text"),
    *FLAGS,
    examples="  bert-tfrecords vocab wiki.txt books.txt --output vocab.txt --size 30000",
)
def vocab(options: argparse.Namespace) -> None:
    """Learn a vocabulary; the same text gives the same vocabulary."""
    from tfrecords_tools.corpus import check_outside
    from tfrecords_tools.vocab import train_vocabulary

    output, model = options.output, options.model_type
    check_output(output)
    is_wordpiece = model == "wordpiece"
    if not is_stdout(output):
        refuse_existing(output)
        check_outside(output, options.files)
        if is_wordpiece == output.endswith(".json"):
            name = "vocab.txt" if is_wordpiece else "tokenizer.json"
            raise InputError(f"{output} does not fit --model-type {model}; name it {name}")
    default = 100 if is_wordpiece else 0
    vocabulary = train_vocabulary(
        options.files,
        size=options.size,
        model=model,
        unused=default if options.unused is None else options.unused,
        segmenter=options.segmenter,
        lowercase=not options.cased,
        workers=options.workers or len(os.sched_getaffinity(0)),
        text_field=options.text_field,
        log=_note,
    )
    write_text(output, vocabulary_file(vocabulary)[1])
    fewer = "" if len(vocabulary) == options.size else "; the corpus provides no more"
    counts = f"{len(vocabulary):,} of {options.size:,} tokens in {output}{fewer}"
    print_field("vocabulary", counts, file=messages_beside(output))


@command(
    CORPUS,
    required("--vocab", "FILE", "vocab.txt, or tokenizer.json of BPE or Unigram"),
    required("-o --output", "DIR", "new folder; the same command continues a stopped build"),
    *_build_options(),
    option("--compat", "google", "write records as google-research/bert", choices=("google",)),
    *FLAGS,
    option("--beam", "OPTION", "run on Apache Beam; its options follow", nargs=argparse.REMAINDER),
    examples="  bert-tfrecords build corpus.txt --vocab vocab.txt --output records",
)
def build(options: argparse.Namespace) -> None:
    """Write a folder of records, with its vocabulary and a manifest."""
    values = {each.name: getattr(options, each.name) for each in SETTINGS}
    values = {name: value for name, value in values.items() if value is not None}
    if options.cased:
        values["lowercase"] = False
    settings = (GoogleSettings if options.compat else BuildSettings)(**values)
    vocabulary = vocabulary_from(options.vocab)
    arguments = {"vocabulary": vocabulary, "output": options.output, "settings": settings}
    if options.beam is None:
        from tfrecords_tools.build import build

        workers = options.workers or len(os.sched_getaffinity(0))
        manifest = build(options.files, **arguments, workers=workers)
    else:
        try:
            from tfrecords_tools.beam import build_on_beam
        except ImportError as error:
            raise InputError(
                f'apache-beam cannot be imported ({error}); pip install "bert-keras[beam]"'
            ) from error
        manifest = build_on_beam(options.files, **arguments, pipeline_options=options.beam)
    num_tokens = sum(split["pieces"] for split in manifest["splits"].values())
    unknown_rate = manifest.get("counts", {}).get("unknown", 0) / num_tokens
    if unknown_rate > 0.05:
        _note(f"{unknown_rate:.0%} of the tokens are [UNK]; does the vocabulary fit the text?")
    for name, counts in manifest["splits"].items():
        summary = f"{counts['records']:,} records of {counts['documents']:,} documents, "
        summary += f"{counts['pieces']:,} tokens"
        if "labels_one" in counts:
            label = LABEL_NAMES[manifest["settings"].get("objective", "nsp")][1]
            summary += f"; {counts['labels_one'] / counts['sequences']:.1%} {label}"
        padding = 1 - counts["tokens"] / (counts["records"] * manifest["schema"]["max_length"])
        print_field(name, f"{summary}; {padding:.1%} padding")


@command(*RECORDS, examples="  bert-tfrecords check records")
def check(options: argparse.Namespace) -> None:
    """Verify every record against its vocabulary and manifest."""
    vocabulary = vocabulary_of_files(options.files, file=options.vocab)
    from tfrecords_tools.check import check_records

    counts = check_records(options.files, vocabulary=vocabulary)
    source = "as the manifest says" if counts["manifests"] else "which no manifest describes"
    checked = f"{counted(counts['records'], 'record')} in {counted(counts['files'], 'file')}"
    print_field("no errors", f"{checked}, {source}")


@command(
    *RECORDS,
    option("--count", "N", "number of records to print", 3, type=count),
    option("--start", "N", "number of the first record to print", 1),
    examples="  bert-tfrecords show records --count 3",
)
def show(options: argparse.Namespace) -> None:
    """Print a few records as text."""
    from tfrecords_tools.show import record_texts

    vocabulary = vocabulary_of_files(options.files, file=options.vocab)
    shown = {"count": options.count, "start": options.start}
    print("\n\n".join(record_texts(options.files, vocabulary=vocabulary, **shown)))


def _note(text: str) -> None:
    print(printable(f"note: {text}"), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
