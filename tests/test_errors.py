import io
import os
import re
import signal
import subprocess
import sys

import pytest
from tensorflow.errors import ResourceExhaustedError

from bert_keras.arguments import run_command
from bert_keras.errors import InputError
from bert_keras.files import atomic_folder


def raising(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("this came; that was expected"), 2, "prog: this came; that was expected"),
        (OSError(13, "Permission denied", "a/b"), 2, "prog: a/b: Permission denied"),
        (OSError(28, "No space left on device"), 2, "prog: No space left on device; free disk"),
        (MemoryError(), 2, "prog: not enough memory"),
        (ResourceExhaustedError(None, None, "OOM"), 2, "prog: not enough memory"),
        (KeyError("of\nours"), 2, "prog: KeyError: "),
        (KeyboardInterrupt(), 130, "prog: interrupted"),
    ],
)
def test_errors_are_reported_in_one_line(capsys, error, code, message):
    assert run_command("prog", raising(error)) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


def test_sigterm_removes_incomplete_files_like_ctrl_c(capsys, tmp_path):
    previous = signal.getsignal(signal.SIGTERM)

    def command():
        with atomic_folder(tmp_path / "out") as folder:
            (folder / "weights").touch()
            signal.raise_signal(signal.SIGTERM)

    assert run_command("prog", command) == 143
    assert capsys.readouterr().err == "prog: interrupted\n"
    assert not [*tmp_path.iterdir()]
    assert signal.getsignal(signal.SIGTERM) is previous


def test_control_characters_of_files_are_escaped(capsys):
    text = "\x1b]0;title\x07 é\t日本 \x9b2J \u202e\udcff \x00"
    assert run_command("prog", raising(InputError(text))) == 2
    expected = r"prog: \u001b]0;title\u0007 é" + " 日本 " + r"\u009b2J \u202e\udcff \u0000"
    assert capsys.readouterr().err == expected + "\n"


def test_characters_that_stdout_cannot_encode_are_escaped(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert run_command("prog", lambda: print("█ \udcff")) == 0
    assert written.getvalue() == rb"\u2588 \udcff" + b"\n"


def pipe_without_a_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("open_stdout", "code", "message"),
    [
        (lambda: os.open("/dev/full", os.O_WRONLY), 2, r"prog: No space left on device; free .*\n"),
        (pipe_without_a_reader, 141, ""),
    ],
)
@pytest.mark.parametrize("lines", [1, 10_000])
def test_a_full_stdout_is_reported_and_a_closed_one_is_not(open_stdout, code, message, lines):
    program = (
        "import sys; from bert_keras.arguments import run_command\n"
        f"sys.exit(run_command('prog', lambda: [print('a line') for _ in range({lines})]))"
    )
    command, stdout = [sys.executable, "-c", program], open_stdout()
    options = {"stderr": subprocess.PIPE, "env": {**os.environ, "PYTHONUNBUFFERED": ""}}
    process = subprocess.run(command, stdout=stdout, text=True, **options)
    os.close(stdout)
    assert process.returncode == code
    assert re.fullmatch(message, process.stderr)
