"""Defines the commands vocab, build, check and show of `bert-tfrecords`."""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bert_keras.commands import Command, CommandParser, add_commands
from bert_keras.errors import InputError, check_unused, import_tensorflow, printable, run_command
from bert_keras.files import check_output, write_text
from bert_keras.options import argument, group, option, options_of
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.beam.build import build_on_beam
from tfrecords_tools.build import build
from tfrecords_tools.inspect.shards import has_records
from tfrecords_tools.manifest import label_names, records_vocabulary
from tfrecords_tools.records.objectives import RECORD_OBJECTIVES
from tfrecords_tools.settings import FORECAST_FIELDS, SURVEY_FIELDS, BuildSettings, settings_of
from tfrecords_tools.vocab.train_vocab import MODELS, train_vocabulary
from tfrecords_tools.vocab.word_counts import Reading

_EXAMPLES = """\
examples:
  bert-tfrecords vocab corpus.txt --output vocab.txt --size 30000
  bert-tfrecords build corpus.txt --vocab vocab.txt --output records --held-out 0.02

A corpus is files, folders or globs of text, wikiextractor output, JSON lines or parquet, compressed
or not, or tfds:NAME. In text, a blank line or the end of a file ends a document.
"""
_TEXT_FIELDS = ("lowercase", "text_field", "errors")  # of `BuildSettings`, for any reader of text
_CORPUS_HELP = "files, folders, globs, or tfds:NAME (bert-tfrecords --help)"
_VOCAB_HELP = "vocabulary of the records (default: the file in their folder)"


def command_parser() -> argparse.ArgumentParser:
    """Build the parser of the program with a subparser for each command."""
    parser = CommandParser(
        prog="bert-tfrecords",
        description="Writes, checks and shows pretraining records (masked words, next sentence).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_commands(parser, (Vocab, Build, Check, Show), metavar="vocab | build | check | show")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return the exit code; see `run_command`."""
    arguments = command_parser().parse_args(argv)
    command = options_of(arguments, arguments.command)
    return run_command("bert-tfrecords", command.run, debug=arguments.debug)


def _sample_bytes(megabytes: str) -> int:
    try:
        size = int(float(megabytes) * 1e6)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{megabytes!r} is not a number of megabytes above 0")
    return size


def _sample(megabytes: int) -> Any:
    return option(
        megabytes * 10**6,
        type=_sample_bytes,
        metavar="MB",
        default_text=str(megabytes),
        help="size of the sample that is read of a larger corpus, spread evenly over it",
    )


def _workers() -> Any:
    return option(
        len(os.sched_getaffinity(0)),
        metavar="N",
        default_text="the number of cores",
        help="number of processes; the result does not depend on it",
    )


@dataclass(frozen=True, kw_only=True)
class Vocab(Command):
    """Learn a vocabulary; the same text gives the same vocabulary."""

    examples = "bert-tfrecords vocab wiki.txt books.txt --output vocab.txt --size 30000"

    files: tuple[str, ...] = argument("CORPUS", help=_CORPUS_HELP)
    output: str = option(metavar="FILE", help="vocab.txt for wordpiece, otherwise tokenizer.json")
    model: str = option(
        "wordpiece",
        choices=tuple(MODELS),
        help="WordPiece (BERT), byte-level BPE (RoBERTa) or Unigram (ALBERT)",
    )
    size: int = option(30000, metavar="N", help="largest number of tokens")
    unused: int | None = option(
        None,
        metavar="N",
        default_text="100 for wordpiece, else 0",
        help="number of tokens [unused0], [unused1] ... reserved for words that are added later",
    )
    word_segmenter: str | None = option(
        None, flags=("--segmenter",), metavar="NAME", help="morphemes of a word: module:function"
    )
    sample: int = _sample(512)
    workers: int = _workers()
    text: Mapping[str, Any] = group(BuildSettings, only=_TEXT_FIELDS)

    def run(self) -> None:
        check_output(self.output)
        if os.path.lexists(self.output):
            raise InputError(
                f"{self.output} exists already; choose another name or remove it first"
            )
        is_wordpiece = self.model == "wordpiece"
        if is_wordpiece == self.output.endswith(".json"):
            expected = "vocab.txt" if is_wordpiece else "tokenizer.json"
            raise InputError(f"{self.output} does not fit --model {self.model}; name it {expected}")
        text = {"lowercase": True, **self.text}
        vocabulary = train_vocabulary(
            self.files,
            size=self.size,
            model=self.model,
            unused=100 * is_wordpiece if self.unused is None else self.unused,
            segmenter=self.word_segmenter,
            lowercase=text.pop("lowercase"),
            reading=Reading(sample_bytes=self.sample, workers=self.workers, **text),
            log=_note,
        )
        write_text(self.output, vocabulary_file(vocabulary)[1])
        fewer = "" if len(vocabulary) == self.size else "; the corpus provides no more"
        print(f"{self.output}: {len(vocabulary):,} of {self.size:,} tokens{fewer}")


@dataclass(frozen=True, kw_only=True)
class Build(Command):
    """Write a folder of records, with its vocabulary and a manifest."""

    examples = "bert-tfrecords build corpus.txt --vocab vocab.txt --output records --held-out 0.02"

    files: tuple[str, ...] = argument("CORPUS", help=_CORPUS_HELP)
    vocab: str = option(metavar="FILE", help="a vocab.txt, or a tokenizer.json (BPE or Unigram)")
    output: str = option(metavar="DIR", help="new folder; repeat the command to continue a build")
    workers: int = _workers()
    compat: str | None = option(
        None,
        choices=("google",),
        help="write exactly the records of google-research/bert, from one sentence per line",
    )
    settings: Mapping[str, Any] = group(BuildSettings)
    beam: tuple[str, ...] | None = option(
        None,
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="run as an Apache Beam job; all arguments after it are options of Beam",
    )

    def run(self) -> None:
        arguments = {
            "vocabulary": vocabulary_from(self.vocab),
            "output": self.output,
            "settings": settings_of(self.settings, compat=self.compat),
        }
        if self.beam is None:
            manifest = build(self.files, **arguments, workers=self.workers)
        else:
            self.check_unused("workers", reason="with --beam, whose runner has its own workers")
            manifest = build_on_beam(self.files, **arguments, pipeline_options=self.beam)
        for remark in manifest["remarks"]:
            _note(remark)
        for name, counts in manifest["splits"].items():
            _report_split(name, counts, manifest)


def _report_split(name: str, counts: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    summary = (
        f"{name}: {counts['records']:,} records of {counts['documents']:,} documents, "
        f"{counts['pieces']:,} tokens"
    )
    if "labels_one" in counts:
        label = RECORD_OBJECTIVES[manifest["settings"].get("objective", "nsp")].label
        summary += f"; {counts['labels_one'] / counts['sequences']:.1%} {label}"
        excess = abs(counts["labels_one"] - counts["sequences"] / 2) - 1
        if not manifest["compat"] and excess > counts["sequences"] / 100:
            _note(
                f"{label} is not half of the labels of {name}, because a document of one sentence "
                "has no true next sentence; run bert-tfrecords check CORPUS for details"
            )
    padding = 1 - counts["tokens"] / (counts["records"] * manifest["schema"]["max_length"])
    print(f"{summary}; {padding:.1%} padding")


@dataclass(frozen=True, kw_only=True)
class Check(Command):
    """Verify records against their manifest, or report on a corpus before a long build."""

    examples = "bert-tfrecords check records\n  bert-tfrecords check corpus.txt --vocab vocab.txt"

    paths: tuple[str, ...] = argument(
        "RECORDS|CORPUS", help="files, folders or globs; their content decides what is checked"
    )
    vocab: str | None = option(None, metavar="FILE", help=_VOCAB_HELP)
    sample: int = _sample(32)
    settings: Mapping[str, Any] = group(BuildSettings, only=(*SURVEY_FIELDS, *FORECAST_FIELDS))

    def run(self) -> None:
        kinds = {has_records(path) for path in self.paths}
        if len(kinds) > 1:
            raise InputError("the arguments name both records and text; check one kind at a time")
        check = self._check_records if kinds == {True} else self._check_corpus
        check()

    def _check_records(self) -> None:
        reason = "on records; it is an option for a corpus"
        self.check_unused("sample", reason=reason)
        check_unused(BuildSettings(**self.settings), *self.settings, reason=reason)
        vocabulary = records_vocabulary(self.paths, file=self.vocab)
        import_tensorflow()
        from tfrecords_tools.inspect import check, verify

        counts = check.check(self.paths, vocabulary=vocabulary)
        labels = label_names(verify.every_file(self.paths)[0])
        print(printable(check.report(counts, labels=labels)))

    def _check_corpus(self) -> None:
        from tfrecords_tools.inspect.advice import report
        from tfrecords_tools.inspect.survey import survey

        settings = BuildSettings(**self.settings)
        vocabulary = vocabulary_from(self.vocab) if self.vocab else None
        if vocabulary is None:
            check_unused(settings, *FORECAST_FIELDS, reason="on a corpus without --vocab")
        counts = survey(
            self.paths, vocabulary=vocabulary, settings=settings, sample_bytes=self.sample
        )
        print(printable(report(counts)))


@dataclass(frozen=True, kw_only=True)
class Show(Command):
    """Print a few records as text, or histograms of all records."""

    examples = "bert-tfrecords show records --count 3"

    records: tuple[str, ...] = argument("RECORDS", help="a folder, or record files")
    vocab: str | None = option(None, metavar="FILE", help=_VOCAB_HELP)
    count: int = option(3, metavar="N", help="number of records to print")
    start: int = option(1, metavar="N", help="number of the first record to print")
    stats: bool = option(False, help="print histograms of all records")
    plot: str | None = option(None, metavar="FILE", help="histograms as FILE.png or FILE.html")

    def run(self) -> None:
        from tfrecords_tools.inspect.picture import check_picture

        if self.stats or self.plot:
            self.check_unused("count", "start", reason="on histograms, which show all records")
        if self.plot:
            check_picture(self.plot)
            check_output(self.plot)
        vocabulary = records_vocabulary(self.records, file=self.vocab)
        import_tensorflow()
        if self.stats or self.plot:
            self._show_histograms(vocabulary)
        else:
            self._show_records(vocabulary)

    def _show_records(self, vocabulary: Vocabulary) -> None:
        from tfrecords_tools.inspect.show import WIDTH, has_colours, record_texts

        texts = record_texts(
            self.records,
            vocabulary=vocabulary,
            count=self.count,
            start=self.start,
            is_coloured=has_colours(sys.stdout),
            width=min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns),
        )
        print("\n\n".join(texts))

    def _show_histograms(self, vocabulary: Vocabulary) -> None:
        from tfrecords_tools.inspect.histograms import text_bars
        from tfrecords_tools.inspect.picture import plot
        from tfrecords_tools.inspect.stats import record_histograms

        histograms = record_histograms(self.records, vocabulary=vocabulary)
        if self.stats:
            print("\n\n".join(map(text_bars, histograms)))
        if self.plot:
            plot(histograms, self.plot, title=" ".join(self.records))
            print(self.plot)


def _note(text: str) -> None:
    print(printable(f"note: {text}"), file=sys.stderr)
