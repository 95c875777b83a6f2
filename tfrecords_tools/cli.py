"""The command line `bert-tfrecords`: from text to pretraining records and back to text."""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from bert_keras.errors import InputError, run_command
from bert_keras.options import Command, add_commands, argument, group, option, options_of
from bert_keras.quiet import import_tensorflow
from bert_keras.storage import write_text
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.records.objectives import OBJECTIVES
from tfrecords_tools.settings import BuildSettings, settings_of
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


def command_parser() -> argparse.ArgumentParser:
    """Build the parser of the program with a subparser for each command."""
    parser = _Parser(
        prog="bert-tfrecords",
        description="Writes, checks and shows pretraining records (masked words, next sentence).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_commands(parser, (Vocab, Build, Check, Show), metavar="vocab | build | check | show")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names and return the exit code; see `run_command`."""
    arguments = command_parser().parse_args(argv)
    return run_command("bert-tfrecords", options_of(arguments, arguments.command).run)


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help tells what can be said\n")


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
        told=str(megabytes),
        help="most text that is read of a larger corpus, spread evenly over it",
    )


def _workers() -> Any:
    return option(
        len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes, by default as many as there are cores; the result does not depend on it",
    )


@dataclass(frozen=True, kw_only=True)
class Vocab(Command):
    """Learn a vocabulary; the same text gives the same vocabulary."""

    examples = "bert-tfrecords vocab wiki.txt books.txt --output vocab.txt --size 30000"

    files: tuple[str, ...] = argument("CORPUS", help=_CORPUS_HELP)
    output: str = option(metavar="FILE", help="vocab.txt or tokenizer.json")
    model: str = option(
        "wordpiece",
        choices=tuple(MODELS),
        help="BERT's (a vocab.txt), RoBERTa's or ALBERT's (a tokenizer.json)",
    )
    size: int = option(30000, metavar="N", help="most pieces")
    unused: int | None = option(
        None,
        metavar="N",
        told="100 of wordpiece",
        help="slots [unused0] and on, for words of one's own later",
    )
    sample: int = _sample(512)
    workers: int = _workers()
    text: Mapping[str, Any] = group(BuildSettings, only=_TEXT_FIELDS)

    def run(self) -> None:
        if os.path.isdir(self.output):
            raise InputError(f"{self.output} is a folder; expected the name of a file to write")
        of_rules = self.model != "wordpiece"
        if of_rules != self.output.endswith(".json"):
            expected = "tokenizer.json" if of_rules else "vocab.txt"
            raise InputError(f"{self.output} is to hold {self.model}; name it {expected}")
        unused = 0 if of_rules else 100
        text = {"lowercase": True, **self.text}
        vocabulary = train_vocabulary(
            self.files,
            size=self.size,
            model=self.model,
            unused=unused if self.unused is None else self.unused,
            lowercase=text.pop("lowercase"),
            reading=Reading(sample_bytes=self.sample, workers=self.workers, **text),
            tell=_note,
        )
        write_text(self.output, vocabulary_file(vocabulary)[1])
        fewer = "" if len(vocabulary) == self.size else ": the corpus gives no more"
        print(f"{self.output}: {len(vocabulary):,} of {self.size:,} pieces{fewer}")


@dataclass(frozen=True, kw_only=True)
class Build(Command):
    """Write a folder of records, with its vocabulary and a manifest."""

    examples = (
        "bert-tfrecords build wiki.txt books.txt --vocab vocab.txt --output records --held-out 0.02"
    )

    files: tuple[str, ...] = argument("CORPUS", help=_CORPUS_HELP)
    vocab: str = option(
        metavar="FILE", help="a vocab.txt, or a tokenizer.json of byte-level BPE or Unigram"
    )
    output: str = option(
        metavar="DIR", help="a folder not there yet; after a stop the same command goes on"
    )
    workers: int = _workers()
    compat: str | None = option(
        None,
        choices=("google",),
        help="the records of google-research/bert, one for one; one sentence a line",
    )
    settings: Mapping[str, Any] = group(BuildSettings)
    beam: tuple[str, ...] | None = option(
        None,
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="as an Apache Beam job; all that follow are Beam's options",
    )

    def run(self) -> None:
        from tfrecords_tools.beam.build import build_on_beam
        from tfrecords_tools.build import build

        given = {
            "vocabulary": vocabulary_from(self.vocab),
            "output": self.output,
            "settings": settings_of(self.settings, compat=self.compat),
        }
        if self.beam is None:
            manifest = build(self.files, **given, workers=self.workers)
        else:
            manifest = build_on_beam(self.files, **given, pipeline_options=self.beam)
        for remark in manifest["remarks"]:
            _note(remark)
        for name, counts in manifest["splits"].items():
            _report_split(name, counts, manifest)


def _report_split(name: str, counts: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    told = (
        f"{name}: {counts['records']:,} records of {counts['documents']:,} documents, "
        f"{counts['pieces']:,} pieces"
    )
    if "labels_one" in counts:
        label = OBJECTIVES[manifest["settings"].get("objective", "nsp")].label
        told += f"; {counts['labels_one'] / counts['sequences']:.1%} {label}"
        excess = abs(counts["labels_one"] - counts["sequences"] / 2) - 1
        if not manifest["compat"] and excess > counts["sequences"] / 100:
            _note(
                f"{name} is not half {label}, for a document of one sentence has no true next one; "
                "bert-tfrecords check CORPUS tells more"
            )
    padding = 1 - counts["tokens"] / (counts["records"] * manifest["schema"]["max_length"])
    print(f"{told}; {padding:.1%} padding")


@dataclass(frozen=True, kw_only=True)
class Check(Command):
    """Verify records against their manifest, or look at a corpus before the long run."""

    examples = "bert-tfrecords check records\n  bert-tfrecords check corpus.txt --vocab vocab.txt"

    places: tuple[str, ...] = argument("RECORDS|CORPUS", help="told apart by their content")
    vocab: str | None = option(None, metavar="FILE", told="that beside the records")
    sample: int = _sample(32)
    settings: Mapping[str, Any] = group(BuildSettings)

    def run(self) -> None:
        from tfrecords_tools.inspect.shards import holds_records

        kinds = {holds_records(place) for place in self.places}
        if len(kinds) > 1:
            raise InputError("records and text were named together; check one kind at a time")
        if kinds == {True}:
            self._check_records()
        else:
            self._check_corpus()

    def _check_records(self) -> None:
        from tfrecords_tools.manifest import label_words, records_vocabulary

        vocabulary = records_vocabulary(self.places, named=self.vocab)
        import_tensorflow()
        from tfrecords_tools.inspect import check, verify

        counts = check.check(self.places, vocabulary=vocabulary)
        print(check.report(counts, labels=label_words(verify.every_file(self.places)[0])))

    def _check_corpus(self) -> None:
        from tfrecords_tools.inspect.advice import report
        from tfrecords_tools.inspect.survey import survey

        found = survey(
            self.places,
            vocabulary=vocabulary_from(self.vocab) if self.vocab else None,
            settings=BuildSettings(**self.settings),
            sample_bytes=self.sample,
        )
        print(report(found))


@dataclass(frozen=True, kw_only=True)
class Show(Command):
    """Print a few records as text, or histograms of all."""

    examples = "bert-tfrecords show records --count 3"

    records: tuple[str, ...] = argument("RECORDS", help="a folder, or record files")
    vocab: str | None = option(None, metavar="FILE", told="that beside the records")
    count: int = option(3, metavar="N", help="records to print")
    start: int = option(1, metavar="N", help="the first of them")
    stats: bool = option(False, help="print histograms of all records")
    plot: str | None = option(None, metavar="FILE", help="draw them into FILE.png or FILE.html")

    def run(self) -> None:
        from tfrecords_tools.inspect.picture import check_picture
        from tfrecords_tools.manifest import records_vocabulary

        if self.plot:
            check_picture(self.plot)
        vocabulary = records_vocabulary(self.records, named=self.vocab)
        import_tensorflow()
        if self.stats or self.plot:
            self._show_histograms(vocabulary)
        else:
            self._show_records(vocabulary)

    def _show_records(self, vocabulary: Vocabulary) -> None:
        from tfrecords_tools.inspect.show import WIDTH, shown, takes_colour

        texts = shown(
            self.records,
            vocabulary=vocabulary,
            count=self.count,
            start=self.start,
            is_coloured=takes_colour(sys.stdout),
            width=min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns),
        )
        print("\n\n".join(texts))

    def _show_histograms(self, vocabulary: Vocabulary) -> None:
        from tfrecords_tools.inspect.picture import plot
        from tfrecords_tools.inspect.stats import record_histograms, text_bars

        histograms = record_histograms(self.records, vocabulary=vocabulary)
        if self.stats:
            print("\n\n".join(map(text_bars, histograms)))
        if self.plot:
            plot(histograms, self.plot, title=" ".join(self.records))


def _note(remark: str) -> None:
    print(f"note: {remark}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
