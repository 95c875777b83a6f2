"""Settings of the writer become options of the command line, and back; their home is `settings`."""

import argparse
import os
from dataclasses import fields
from typing import NoReturn

from bert_keras.data.masking import REPLACEMENTS, UNITS
from bert_keras.errors import InputError
from tfrecords_tools.records.objectives import OBJECTIVES
from tfrecords_tools.settings import ERRORS, BuildSettings, GoogleSettings

# field of the settings: what argparse needs to know of it
_TEXT = {
    "text_field": {
        "metavar": "NAME",
        "help": "field of JSON, parquet and TFDS that holds the text",
    },
    "errors": {"choices": ERRORS, "help": "what to do with lines that are not UTF-8"},
}
_SETTINGS = {
    "splitter": {"metavar": "NAME", "help": "sentences: a language, lines, or module:function"},
    "segmenter": {"metavar": "NAME", "help": "words, for whole-word masking: module:function"},
    "objective": {"choices": tuple(OBJECTIVES), "help": "what a record is made of"},
    "max_length": {"type": int, "metavar": "N", "help": "positions a record"},
    "max_predictions": {"type": int, "metavar": "N", "help": "masked at most; 0: plain ids"},
    "mask_rate": {"type": float, "metavar": "RATE", "help": "share of a record that is masked"},
    "mask_unit": {"choices": UNITS, "help": "what is masked together"},
    "max_ngram": {"type": int, "metavar": "N", "help": "units in a row that are masked together"},
    "replacement": {"choices": tuple(REPLACEMENTS), "help": "percent [MASK]-same-random"},
    "sequences_per_record": {"type": int, "metavar": "N", "help": "at most; several fill it"},
    "duplicates": {"type": int, "metavar": "N", "help": "passes over the corpus"},
    "short_sequence_rate": {"type": float, "metavar": "RATE", "help": "of the pairs"},
    "held_out": {"type": float, "metavar": "RATE", "help": "share of the documents kept apart"},
    "shards": {"type": int, "metavar": "N", "help": "training files"},
    "seed": {"type": int, "metavar": "N", "help": "the same seed, the same bytes"},
}
_FIELDS = {"held_out": "held_out_rate"}  # where the option has another name
_UNSAID = {
    "segmenter": "none",
    "duplicates": "5; 1 where all were equal; google: 10",
    "shards": "about 100,000 records each; google: 1",
}


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as every other is told."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help tells what can be said\n")


def add_corpus(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "files",
        nargs="+",
        metavar="CORPUS",
        help="files, folders, globs, or tfds:NAME (bert-tfrecords --help)",
    )
    add_text_settings(verb)


def add_workers(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--workers",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes; the result does not depend on it (default: the cores, %(default)s)",
    )


def add_sample(parser: argparse.ArgumentParser, *, megabytes: int) -> None:
    parser.add_argument(
        "--sample",
        type=_bytes_of,
        metavar="MB",
        default=megabytes * 10**6,
        help=f"of a larger corpus so much is read, spread evenly (default: {megabytes})",
    )


def add_text_settings(parser: argparse.ArgumentParser) -> None:
    """Options of whatever reads a corpus."""
    parser.add_argument(
        "--cased",
        dest="lowercase",
        action="store_const",
        const=False,
        default=argparse.SUPPRESS,
        help="keep upper case and accents",
    )
    _add(parser, _TEXT)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Every other option of the writer."""
    _add(parser, _SETTINGS)


def settings_of(arguments: argparse.Namespace) -> BuildSettings | GoogleSettings:
    """The settings that were given, the others by default."""
    kind = GoogleSettings if getattr(arguments, "compat", None) else BuildSettings
    given = {
        name: getattr(arguments, name)
        for name in ("lowercase", *(_FIELDS.get(option, option) for option in (*_TEXT, *_SETTINGS)))
        if hasattr(arguments, name)
    }
    unknown = sorted(set(given) - {field.name for field in fields(kind)})
    if unknown:
        options = {field: option for option, field in _FIELDS.items()}
        option = options.get(unknown[0], unknown[0]).replace("_", "-")
        raise InputError(
            f"--{option} does not go with --compat google, whose records are those of the "
            "original; leave one out"
        )
    return kind(**given)


def _bytes_of(megabytes: str) -> int:
    try:
        size = int(float(megabytes) * 1e6)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise argparse.ArgumentTypeError(f"{megabytes!r} is not a number of megabytes above 0")
    return size


def _add(parser: argparse.ArgumentParser, options: dict[str, dict]) -> None:
    defaults = {field.name: field.default for field in fields(BuildSettings)}
    for option, details in options.items():
        field = _FIELDS.get(option, option)
        default = _UNSAID.get(option, defaults[field])
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            dest=field,
            default=argparse.SUPPRESS,
            **{**details, "help": f"{details['help']} ({default})"},
        )
