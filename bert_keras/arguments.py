"""Defines the argument parser of both programs, which answers a mistake in one line."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from bert_keras.errors import InputError, check_name, nearest, printable

# Answer to former flags and those of transformers and google-research/bert -> these flags, without
# "--". An answer with a flag or an argument counts for the commands that have it.
HABITS = {
    "--learning-rate": "lr",
    "--epochs": "num-train-epochs num-epochs",
    "--batch-size": "per-device-train-batch-size train-batch-size",
    "--max-length": "max-seq-length",
    "--warmup-ratio": "warmup-proportion",
    "--precision": "fp16 bf16",
    "--format": "to",
    "--output": "output-dir output-file to",
    "--model-version": "version",
    "--num-texts": "texts",
    "--model-class": "model",
    "--model-type": "model",
    "--train": "train-file training",
    "--dev": "validation-file eval-file predict-file validation eval valid val",
    "--data": "data-dir dataset-name test-file input input-file",
    "--from": "model-name-or-path model-name model init-checkpoint",
    "MODEL, the first argument,": "model-name-or-path model-name model init-checkpoint",
    "--task": "task-name",
    "TASK, the first argument,": "task-name task",
    "CORPUS, the first argument,": "input-file input corpus data-dir data train-file",
    "RECORDS, the first argument,": "records input-file input data",
    "saved_models/NAME, the first argument,": "model model-name model-base-path",
    "--port": "rest-api-port",
    "--set text_columns=NAME": "text-column text-columns",
    "--set label_column=NAME": "label-column",
    "--set weight_decay_rate=RATE": "weight-decay",
    "--set gradient_accumulation_steps=N": "gradient-accumulation-steps",
    "--vocab": "vocab-file",
    "--records": "corpus data data-dir train-file input-file",
    "--size": "vocab-size",
    "TEXT, without a flag,": "text texts",
    "--duplicates": "dupe-factor",
    "--mask-rate": "masked-lm-prob mlm-probability",
    "--short-sequence-rate": "short-seq-prob",
    "--strategy": "device devices gpu gpus num-gpus",
    "the variable CUDA_VISIBLE_DEVICES": "device devices gpu gpus num-gpus",
    "the command finetune": "do-train",
    "the command evaluate": "do-eval",
    "the command predict": "do-predict",
}


def checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """Returns the type of an argument that `check` may refuse with an InputError."""

    def value(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError("an empty text is no name")
        try:
            check(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        return text

    return value


def one_of(names: Callable[[], Iterable[str]], *, what: str) -> Callable[[str], str]:
    """Returns the type of an argument that is one of the `names` at the time of the call."""
    return checked(lambda text: check_name(text, names(), what=what))


def _number(kind: type) -> Callable[[str], Any]:
    """Returns the type of an argument that is an int or a float."""

    def value(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            expected = "a whole number" if kind is int else "a number such as 3e-5"
            raise argparse.ArgumentTypeError(f"expected {expected}, not {text!r}") from error

    return value


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, which suggests the nearest name.

    Attributes:
        commands: The parsers of the commands by name.
        flag_of: The option of each attribute of the namespace.
    """

    def __init__(self, **details: Any):
        self.flags: list[str] = []
        self.flag_of: dict[str, str] = {}
        self._group: Any = None
        self._last: list[str] = []  # flags that take all arguments after them
        self.commands: Mapping[str, Parser] = {}
        super().__init__(**details, allow_abbrev=False)

    def add_heading(self, title: str) -> None:
        """Puts the options that follow under a heading of the help text."""
        self._group = self.add_argument_group(title)

    def add_argument(self, *names: Any, **details: Any) -> argparse.Action:
        """Adds an argument as argparse does."""
        if details.get("type") in (int, float):
            details["type"] = _number(details["type"])
        self.flags += names
        self._last += names if details.get("nargs") == argparse.REMAINDER else ()
        add = self._group.add_argument if self._group else super().add_argument
        action = add(*names, **details)
        self.flag_of[action.dest] = names[-1]
        if action.required or not action.option_strings:
            words = [*action.option_strings[-1:], str(action.metavar)]
            self.usage = " ".join([self.usage or "%(prog)s [options]", *words])
        return action

    def error(self, message: str) -> NoReturn:
        if "required: " in message or "too many" in message:  # the first line of the examples
            example = str(self.epilog).replace("\\\n", "").split("\n")[1:2]
            message += "".join(f"; example: {' '.join(each.split())}" for each in example)
        message = f"{self.prog}: {message}; see {self.prog} --help".replace("?;", "?")
        self.exit(2, printable(f"{message}\n"))

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Parses the arguments; an unknown command or flag ends the program with exit code 2."""
        args = [*sys.argv[1:]] if args is None else [*args]
        if self.commands and not args:
            args = ["--help"]
        if self.commands and not args[0].startswith("-"):
            try:
                check_name(args[0], self.commands, what="command")
            except InputError as error:
                self.error(str(error))
        mine = takewhile(lambda each: each not in self.commands and each not in self._last, args)
        for flag in (each.partition("=")[0] for each in mine):
            is_flag = flag.startswith("--") and flag.strip("-")
            if is_flag and flag not in self.flags:
                name = flag.replace("_", "-")
                here = {"the", *self.flags, *str(self.usage).replace("[", "").split()}
                for answer, theirs in HABITS.items():
                    is_here = answer.split()[0].rstrip(",") in here
                    if name[2:] in theirs.split() and is_here:
                        self.error(f"{flag} is {answer} here")
                known = [each for each in self.flags if each[:1] == "-" and each != "--help"]
                self.error(f"no argument is called {flag}{nearest(name, known)}")
        options, rest = super().parse_known_args(args, namespace)
        if rest and getattr(options, "texts", None) == [] and not rest[0].startswith("-"):
            options.texts, rest = rest, []  # argparse takes texts after a flag for unknown ones
        if rest:
            is_setting = "=" in rest[0] and "--set" in self.flags
            hint = f"; a setting is --set {rest[0]}" * is_setting
            self.error(f"{rest[0]!r} is one argument too many{hint}")
        return options, rest
