"""Runs each command in a fork of a process that has loaded its modules, with a fault in its files.

python -m tests.attack.forking MODULE... reads a `Task` as a JSON line from its standard input and
writes an `Outcome` as one.
"""

import argparse
import errno
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from typing import NamedTuple

from bert_keras.cli.program import start_keras

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "truncate", "symlink")}


class Task(NamedTuple):
    """A command and its fault: the process ends, or the disk is full, at a change of a file."""

    folder: str  # the working directory, whose changes count
    program: str  # a module with the function main(arguments)
    arguments: list[str]
    is_killed: bool = False
    change: int = 0  # number of the change, from 1; 0 for none
    max_bytes: int = 0  # size of a file at which it happens, also in C++; 0 for none


class Outcome(NamedTuple):
    """What a command did; `code` is -N if the signal N ended it."""

    code: int
    output: str
    errors: str
    num_changes: int
    has_tensorflow: bool


def is_change(event: str, arguments: tuple, *, folder: str) -> bool:
    """Returns whether an audit event changes a file in `folder`."""
    path, *how = arguments or (0,)
    changes = event in CHANGES
    if event == "open":
        changes = {*"wax+"} & {*how[0]} if how[0] else how[1] & WRITING
    is_path = changes and not isinstance(path, int)
    return bool(is_path) and os.path.abspath(os.fsdecode(path)).startswith(folder)


def attacked(task: Task, results: int) -> int:
    """Runs a command in this process, with its fault, and returns its exit code."""
    num_changes = 0

    def hook(event: str, arguments: tuple) -> None:
        nonlocal num_changes
        if not is_change(event, arguments, folder=task.folder):
            return
        num_changes += 1
        if task.change and num_changes >= task.change:
            if task.is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
            if event not in ("os.remove", "os.rmdir"):  # which work on a full disk
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(arguments[0]))

    os.chdir(task.folder)
    signal.alarm(120)  # a command that hangs is ended
    main = importlib.import_module(task.program).main
    if task.max_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if task.is_killed else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.max_bytes, resource.RLIM_INFINITY))
    sys.addaudithook(hook)
    try:
        code = main(task.arguments)
    except SystemExit as stop:  # of argparse
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    os.write(results, json.dumps([num_changes, "tensorflow" in sys.modules]).encode())
    return code


def main(arguments: list[str]) -> int:
    """Serves a model folder, and prints the answer to a text."""
    from bert_keras.arguments import run_command
    from bert_keras.serving.client import Client
    from bert_keras.serving.server import running_server

    def ask() -> None:
        folder = arguments[0]
        with running_server(folder) as url, Client(f"{url}/v1/models/{folder}") as client:
            print(client.predict(["a good film"]))

    return run_command("bert-keras serve", ask)


def fork(task: Task) -> Outcome:
    """Runs a command in a child process."""
    pipes = [os.pipe() for _ in range(3)]
    if not (child := os.fork()):
        for number, (_, end) in enumerate(pipes[:2], 1):
            os.dup2(end, number)
        code = attacked(task, pipes[2][1])
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    texts = []
    for start, end in pipes:
        os.close(end)
        with open(start, errors="replace") as file:
            texts.append(file.read())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(code, *texts[:2], *(json.loads(texts[2]) if texts[2] else (0, False)))


if __name__ == "__main__":
    if "keras" in sys.argv:
        start_keras(argparse.Namespace())
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(fork(Task(*json.loads(line)))), flush=True)
