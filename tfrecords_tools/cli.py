"""The command line `bert-tfrecords`: from text to pretraining records and back to text."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from bert_keras.arguments import Parser, one_of
from bert_keras.data.masking import REPLACEMENTS
from bert_keras.errors import InputError, check, counted, printable, run_command, say
from bert_keras.files import check_output, is_stdout, messages_beside, refuse_existing, write_text
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from
from tfrecords_tools.settings import LABEL_NAMES, BuildSettings, GoogleSettings, vocabulary_of_files

PROGRAM = "bert-tfrecords"
_EXAMPLES = """\
examples:
  bert-tfrecords vocab corpus.txt --output vocab.txt --size 30000
  bert-tfrecords build corpus.txt --vocab vocab.txt --output records --held-out 0.02

A corpus is files, folders or globs of text, wikiextractor output, JSON lines or parquet, compressed
or not, or tfds:NAME. In text, a blank line or the end of a file ends a document.
"""
# Rows of options: the flag, the type (None for a switch) or the choices, the name of the value, and
# the help text.
Option = tuple[str, Any, str, str]
REQUIRED = {"vocab": ["--output"], "build": ["--vocab", "--output"]}
CORPUS_FORMS = "text files, folders, globs or tfds:NAME, see bert-tfrecords --help"
CORPUS: Option = ("files", str, "CORPUS", CORPUS_FORMS)
RECORDS: tuple[Option, ...] = (
    ("files", str, "RECORDS", "folder of records, or record files"),
    ("--vocab", str, "FILE", "vocabulary of the records (default: the file in their folder)"),
)
TEXT_OPTIONS: tuple[Option, ...] = (
    ("--cased", None, "", "keep upper case and accents"),
    ("--text-field", str, "NAME", "field of JSON, parquet or TFDS with the text (default: text)"),
    ("--workers", int, "N", "number of processes, which changes no result (default: all cores)"),
)
VOCAB_OPTIONS: tuple[Option, ...] = (
    CORPUS,
    ("--output", str, "FILE", "file to write: vocab.txt for wordpiece, otherwise tokenizer.json"),
    ("--model-type", ("wordpiece", "bpe", "unigram"), "", "for BERT (default), RoBERTa, ALBERT"),
    ("--size", int, "N", "maximum number of tokens (default: 30000)"),
    ("--unused", int, "N", "number of tokens [unusedN] for later (default: 100 for wordpiece)"),
    ("--segmenter", str, "NAME", "function that divides words into morphemes, as module:function"),
    *TEXT_OPTIONS,
)
BUILD_OPTIONS: tuple[Option, ...] = (
    CORPUS,
    ("--vocab", str, "FILE", "vocab.txt, or tokenizer.json of BPE or Unigram"),
    ("--output", str, "DIR", "new folder; the same command continues a stopped build"),
    ("--splitter", str, "NAME", "sentence rules: language, lines, module:function (default: en)"),
    ("--segmenter", str, "NAME", "function that finds words for --mask-unit, as module:function"),
    ("--objective", tuple(LABEL_NAMES), "", "pretraining objective (default: nsp)"),
    ("--max-length", int, "N", "maximum number of tokens of a record (default: 128)"),
    ("--max-predictions", int, "N", "maximum number of masks; 0 masks in training (default: 20)"),
    ("--mask-rate", float, "RATE", "fraction of masked tokens (default: 0.15)"),
    ("--mask-unit", str, "UNIT", "what is masked: token (default), or word, with all its tokens"),
    ("--max-ngram", int, "N", "maximum number of units masked in a row (default: 1)"),
    ("--replacement", tuple(REPLACEMENTS), "", "percentages of [MASK], same, random token"),
    ("--sequences-per-record", int, "N", "maximum number of sequences in a record (default: 1)"),
    ("--duplicates", int, "N", "number of passes over the documents (default: 5; google: 10)"),
    ("--short-sequence-rate", float, "RATE", "fraction of shortened pairs (default: 0.1)"),
    ("--held-out", float, "RATE", "fraction of documents kept out of training (default: 0.0)"),
    ("--shards", int, "N", "number of training files (default: one per 100,000 records)"),
    ("--seed", int, "N", "seed; the same one gives the same bytes (default: 12345)"),
    ("--compat", ("google",), "", "write records of google-research/bert, a sentence per line"),
    *TEXT_OPTIONS,
)
DEBUG: Option = ("--debug", None, "", "print the traceback of an error")
SHOW_OPTIONS: tuple[Option, ...] = (
    *RECORDS,
    ("--count", int, "N", "number of records to print (default: 3)"),
    ("--start", int, "N", "number of the first record to print (default: 1)"),
    ("--plot", str, "FILE", "picture of histograms of all records to write: .png, .svg or .pdf"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command that `argv` names and returns the exit code; see `run_command`."""
    options = vars(command_parser().parse_args(argv))
    program, command = f"{PROGRAM} {options.pop('name')}", options.pop("command")
    is_debugged = options.pop("debug", False)
    return run_command(program, lambda: command(options), debug=is_debugged)


def command_parser() -> argparse.ArgumentParser:
    """Builds the parser of the program with a subparser for each command."""
    parser = Parser(
        prog=PROGRAM,
        description="Write, check and show pretraining records (masked words, next sentence).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="name")
    for name, command, example, options in (
        ("vocab", vocab, "wiki.txt books.txt --output vocab.txt --size 30000", VOCAB_OPTIONS),
        ("build", build, "corpus.txt --vocab vocab.txt --output records", BUILD_OPTIONS),
        ("check", verify, "records", RECORDS),
        ("show", show, "records --count 3", SHOW_OPTIONS),
    ):
        sub = commands.add_parser(
            name,
            help=command.__doc__,
            description=command.__doc__,
            epilog=f"example:\n  {PROGRAM} {name} {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,  # the parsed arguments are those that are given
        )
        sub.set_defaults(command=command)
        for flag, kind, metavar, text in (*options, DEBUG):
            details: dict[str, Any] = {"type": kind, "metavar": metavar}
            if kind is None:
                details = {"action": "store_true"}
            elif isinstance(kind, tuple):
                choice = one_of(partial(tuple, kind), what=flag.removeprefix("--"))
                details = {"type": choice, "metavar": f"{{{','.join(kind)}}}"}
            if flag == "files":
                details["nargs"] = "+"
            elif flag in REQUIRED.get(name, ()):
                details["required"] = True
            sub.add_argument(*["-o"] * (flag == "--output"), flag, help=text, **details)
        if name == "build":
            text = "run on Apache Beam; all arguments after it are options of Beam"
            sub.add_argument("--beam", nargs=argparse.REMAINDER, metavar="OPTION", help=text)
    parser.commands = commands.choices
    return parser


def vocab(options: dict[str, Any]) -> None:
    """Learn a vocabulary; the same text gives the same vocabulary."""
    from tfrecords_tools.vocab import train_vocabulary

    output, model = options["output"], options.get("model_type", "wordpiece")
    check_output(output)
    if not is_stdout(output):
        refuse_existing(output)
    is_wordpiece, size = model == "wordpiece", options.get("size", 30000)
    expected = "vocab.txt" if is_wordpiece else "tokenizer.json"
    is_named = is_stdout(output) or is_wordpiece != output.endswith(".json")
    check(is_named, f"{output} does not fit --model-type {model}; name it {expected}")
    vocabulary = train_vocabulary(
        options["files"],
        size=size,
        model=model,
        unused=options.get("unused", 100 * is_wordpiece),
        segmenter=options.get("segmenter"),
        lowercase="cased" not in options,
        workers=options.get("workers", _num_cores()),
        text_field=options.get("text_field", "text"),
        log=_note,
    )
    write_text(output, vocabulary_file(vocabulary)[1])
    fewer = "" if len(vocabulary) == size else "; the corpus provides no more"
    counts = f"{len(vocabulary):,} of {size:,} tokens in {output}{fewer}"
    say("vocabulary", counts, file=messages_beside(output))


def build(options: dict[str, Any]) -> None:
    """Write a folder of records, with its vocabulary and a manifest."""
    names = {"lowercase": "cased", "held_out_rate": "held_out"}  # of options by field
    found = {each.name: names.get(each.name, each.name) for each in fields(BuildSettings)}
    values = {field: options[name] for field, name in found.items() if name in options}
    if "lowercase" in values:
        values["lowercase"] = False
    arguments = {
        "vocabulary": vocabulary_from(options["vocab"]),
        "output": options["output"],
        "settings": (GoogleSettings if "compat" in options else BuildSettings)(**values),
    }
    if "beam" in options:
        check("workers" not in options, "--workers has no effect with --beam; leave it out")
        try:
            from tfrecords_tools.beam import build_on_beam
        except ImportError as error:
            remedy = 'expected the extra beam: pip install -e ".[beam]"'
            raise InputError(f"apache-beam cannot be imported ({error}); {remedy}") from error
        manifest = build_on_beam(options["files"], **arguments, pipeline_options=options["beam"])
    else:
        from tfrecords_tools.build import build

        workers = options.get("workers", _num_cores())
        manifest = build(options["files"], **arguments, workers=workers)
    num_tokens = sum(split["pieces"] for split in manifest["splits"].values())
    unknown_rate = manifest.get("counts", {}).get("unknown", 0) / num_tokens
    if unknown_rate > 0.05:
        _note(f"{unknown_rate:.0%} of the tokens are [UNK]; do vocabulary and --cased fit it?")
    for name, counts in manifest["splits"].items():
        summary = (
            f"{counts['records']:,} records of {counts['documents']:,} documents, "
            f"{counts['pieces']:,} tokens"
        )
        if "labels_one" in counts:
            label = LABEL_NAMES[manifest["settings"].get("objective", "nsp")][1]
            summary += f"; {counts['labels_one'] / counts['sequences']:.1%} {label}"
        padding = 1 - counts["tokens"] / (counts["records"] * manifest["schema"]["max_length"])
        say(name, f"{summary}; {padding:.1%} padding")


def verify(options: dict[str, Any]) -> None:
    """Verify every record against its vocabulary and manifest."""
    vocabulary = vocabulary_of_files(options["files"], file=options.get("vocab"))
    from tfrecords_tools.check import check_records

    counts = check_records(options["files"], vocabulary=vocabulary)
    source = "as the manifest says" if counts["manifests"] else "which no manifest describes"
    found = f"{counted(counts['records'], 'record')} in {counted(counts['files'], 'file')}"
    say("no errors", f"{found}, {source}")


def show(options: dict[str, Any]) -> None:
    """Print a few records as text, or draw histograms of all records."""
    from tfrecords_tools import show as showing

    records, plot = options["files"], options.get("plot")
    if plot:
        expected = ", ".join(showing.PICTURES)
        is_picture = plot.lower().endswith(showing.PICTURES)
        check(is_picture, f"{plot} is not a picture file; expected a name that ends in {expected}")
        check_output(plot)
    vocabulary = vocabulary_of_files(records, file=options.get("vocab"))
    if plot:
        histograms = showing.record_histograms(records, vocabulary=vocabulary)
        showing.plot(histograms, plot, title=" ".join(records))
        say("picture", plot)
        return
    count, start = options.get("count", 3), options.get("start", 1)
    check(count > 0, f"--count is {count}; expected at least 1")
    texts = showing.record_texts(records, vocabulary=vocabulary, count=count, start=start)
    print("\n\n".join(texts))


def _num_cores() -> int:
    return len(os.sched_getaffinity(0))


def _note(text: str) -> None:
    print(printable(f"note: {text}"), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
