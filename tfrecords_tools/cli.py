"""`bert-tfrecords`: one verb a run, from text to pretraining records and back to text."""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence

from bert_keras.errors import InputError, run_command
from bert_keras.quiet import import_tensorflow
from bert_keras.storage import write_text
from bert_keras.text.fast_tokenizer import vocabulary_file, vocabulary_from, vocabulary_in
from tfrecords_tools.options import (
    Parser,
    add_corpus,
    add_sample,
    add_settings,
    add_text_settings,
    add_workers,
    settings_of,
)
from tfrecords_tools.vocab.train_vocab import MODELS, train_vocabulary

_EXAMPLES = """\
examples:
  bert-tfrecords vocab corpus.txt --output vocab.txt --size 30000
  bert-tfrecords check corpus.txt --vocab vocab.txt
  bert-tfrecords build corpus.txt --vocab vocab.txt --output records --held-out 0.02
  bert-tfrecords check records
  bert-tfrecords show records --count 3

A corpus is files, folders or globs of text: a paragraph or sentence a line; a blank line or the end
of a file ends a document. Or wikiextractor output, JSON lines, parquet, each compressed or not, or
tfds:NAME. docs/write-records.md tells more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    return run_command("bert-tfrecords", lambda: arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="bert-tfrecords",
        description="Writes, checks and shows pretraining records (masked words, next sentence).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="vocab | build | check | show")

    def verb(name, run, help, example):
        added = verbs.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example: bert-tfrecords {name} {example}",
        )
        added.set_defaults(run=run)
        return added

    vocab = verb(
        "vocab",
        _vocab,
        "learn a vocabulary, the same for the same text",
        "wiki.txt books.txt --output vocab.txt --size 30000",
    )
    add_corpus(vocab)
    vocab.add_argument(
        "--output", required=True, metavar="FILE", help="vocab.txt or tokenizer.json"
    )
    vocab.add_argument(
        "--model",
        choices=tuple(MODELS),
        default="wordpiece",
        help="BERT's (a vocab.txt), RoBERTa's or ALBERT's (a tokenizer.json); %(default)s",
    )
    vocab.add_argument(
        "--size", type=int, metavar="N", default=30000, help="most pieces (default: %(default)s)"
    )
    vocab.add_argument(
        "--unused",
        type=int,
        metavar="N",
        help="slots [unused0] and on, for words of one's own later (default: 100 of wordpiece)",
    )
    add_sample(vocab, megabytes=512)
    add_workers(vocab)

    build = verb(
        "build",
        _build,
        "write a folder of records, with its vocabulary and a manifest",
        "wiki.txt books.txt --vocab vocab.txt --output records --held-out 0.02",
    )
    add_corpus(build)
    build.add_argument(
        "--vocab",
        required=True,
        metavar="FILE",
        help="a vocab.txt, or a tokenizer.json of byte-level BPE or Unigram",
    )
    build.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="a folder not there yet; after a stop the same command goes on",
    )
    add_workers(build)
    build.add_argument(
        "--compat",
        choices=["google"],
        help="the records of google-research/bert, one for one; one sentence a line",
    )
    add_settings(build)
    build.add_argument(
        "--beam",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="as an Apache Beam job; all that follows are Beam's options",
    )

    check = verb(
        "check",
        _check,
        "verify records against their manifest, or look at a corpus before the long run",
        "records   or   bert-tfrecords check corpus.txt --vocab vocab.txt",
    )
    check.add_argument(
        "places", nargs="+", metavar="RECORDS|CORPUS", help="told apart by their content"
    )
    check.add_argument("--vocab", metavar="FILE", help="default: that beside the records")
    add_sample(check, megabytes=32)
    add_text_settings(check)
    add_settings(check)
    show = verb(
        "show", _show, "print a few records as text, or histograms of all", "records --count 3"
    )
    show.add_argument("records", nargs="+", metavar="RECORDS", help="a folder, or record files")
    show.add_argument("--vocab", metavar="FILE", help="default: that beside the records")
    show.add_argument("--count", type=int, metavar="N", default=3, help="records to print (3)")
    show.add_argument("--start", type=int, metavar="N", default=1, help="the first of them (1)")
    show.add_argument("--stats", action="store_true", help="print histograms of all records")
    show.add_argument("--plot", metavar="FILE", help="draw them into FILE.png or FILE.html")
    return parser


def _vocab(arguments: argparse.Namespace) -> None:
    if os.path.isdir(arguments.output):
        raise InputError(f"{arguments.output} is a folder; expected the name of a file to write")
    of_rules = arguments.model != "wordpiece"
    if of_rules != arguments.output.endswith(".json"):
        expected = "tokenizer.json" if of_rules else "vocab.txt"
        raise InputError(f"{arguments.output} is to hold {arguments.model}; name it {expected}")
    unused = 0 if of_rules else 100
    vocabulary = train_vocabulary(
        arguments.files,
        size=arguments.size,
        model=arguments.model,
        lowercase=getattr(arguments, "lowercase", True),
        unused=unused if arguments.unused is None else arguments.unused,
        sample_bytes=arguments.sample,
        workers=arguments.workers,
        errors=getattr(arguments, "errors", "fail"),
        text_field=getattr(arguments, "text_field", "text"),
        tell=lambda remark: print(f"note: {remark}", file=sys.stderr),
    )
    write_text(arguments.output, vocabulary_file(vocabulary)[1])
    fewer = "" if len(vocabulary) == arguments.size else ": the corpus gives no more"
    print(f"{arguments.output}: {len(vocabulary):,} of {arguments.size:,} pieces{fewer}")


def _build(arguments: argparse.Namespace) -> None:
    from tfrecords_tools.beam.build import build_on_beam
    from tfrecords_tools.build import build
    from tfrecords_tools.records.objectives import OBJECTIVES

    write, how = build, {"workers": arguments.workers}
    if arguments.beam is not None:
        write, how = build_on_beam, {"pipeline_options": arguments.beam}
    manifest = write(
        arguments.files,
        vocabulary=vocabulary_from(arguments.vocab),
        output=arguments.output,
        settings=settings_of(arguments),
        **how,
    )
    for remark in manifest["remarks"]:
        print(f"note: {remark}", file=sys.stderr)
    for name, counts in manifest["splits"].items():
        told = (
            f"{name}: {counts['records']:,} records of {counts['documents']:,} documents, "
            f"{counts['pieces']:,} pieces"
        )
        if "labels_one" in counts:
            label = OBJECTIVES[manifest["settings"].get("objective", "nsp")].label
            told += f"; {counts['labels_one'] / counts['sequences']:.1%} {label}"
            excess = abs(counts["labels_one"] - counts["sequences"] / 2) - 1
            if not manifest["compat"] and excess > counts["sequences"] / 100:
                print(
                    f"note: {name} is not half {label}, for a document of one sentence has no true "
                    "next one; bert-tfrecords check CORPUS tells more",
                    file=sys.stderr,
                )
        padding = 1 - counts["tokens"] / (counts["records"] * manifest["schema"]["max_length"])
        print(f"{told}; {padding:.1%} padding")


def _check(arguments: argparse.Namespace) -> None:
    from tfrecords_tools.inspect.shards import holds_records

    kinds = {holds_records(place) for place in arguments.places}
    if len(kinds) > 1:
        raise InputError("records and text were named together; check one kind at a time")
    (_check_records if kinds == {True} else _check_corpus)(arguments)


def _check_records(arguments: argparse.Namespace) -> None:
    vocabulary = _vocabulary(arguments.places, arguments.vocab)
    import_tensorflow()
    from tfrecords_tools.inspect.check import check, every_file, report
    from tfrecords_tools.manifest import label_words

    counts = check(arguments.places, vocabulary=vocabulary)
    print(report(counts, labels=label_words(every_file(arguments.places)[0])))


def _check_corpus(arguments: argparse.Namespace) -> None:
    from tfrecords_tools.inspect.advice import report
    from tfrecords_tools.inspect.survey import survey

    found = survey(
        arguments.places,
        vocabulary=vocabulary_from(arguments.vocab) if arguments.vocab else None,
        settings=settings_of(arguments),
        sample_bytes=arguments.sample,
    )
    print(report(found))


def _show(arguments: argparse.Namespace) -> None:
    from tfrecords_tools.inspect.picture import check_picture

    if arguments.plot:
        check_picture(arguments.plot)
    vocabulary = _vocabulary(arguments.records, arguments.vocab)
    import_tensorflow()
    if arguments.stats or arguments.plot:
        _show_histograms(arguments, vocabulary)
    else:
        _show_records(arguments, vocabulary)


def _show_records(arguments: argparse.Namespace, vocabulary) -> None:
    from tfrecords_tools.inspect.show import WIDTH, shown, takes_colour

    texts = shown(
        arguments.records,
        vocabulary=vocabulary,
        count=arguments.count,
        start=arguments.start,
        is_coloured=takes_colour(sys.stdout),
        width=min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns),
    )
    print("\n\n".join(texts))


def _show_histograms(arguments: argparse.Namespace, vocabulary) -> None:
    from tfrecords_tools.inspect.picture import plot
    from tfrecords_tools.inspect.stats import record_histograms, text_bars

    histograms = record_histograms(arguments.records, vocabulary=vocabulary)
    if arguments.stats:
        print("\n\n".join(map(text_bars, histograms)))
    if arguments.plot:
        plot(histograms, arguments.plot, title=" ".join(arguments.records))


def _vocabulary(records: Sequence[str], named: str | None):
    from pathlib import Path

    if named:
        return vocabulary_from(named)
    first = Path(records[0])
    if not first.exists():
        raise InputError(f"{first} does not exist; expected a folder of records or record files")
    beside = vocabulary_in(first if first.is_dir() else first.parent)
    if beside is None:
        raise InputError(
            f"there is no vocab.txt or tokenizer.json beside the records at {first}; give one by "
            "--vocab"
        )
    return beside


if __name__ == "__main__":
    raise SystemExit(main())
