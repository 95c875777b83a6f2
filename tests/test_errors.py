import pytest

from bert_keras.errors import InputError, run_command


def raising(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("this came; that was expected"), 2, "prog: this came; that was expected\n"),
        (OSError(13, "Permission denied", "a/b"), 2, "prog: a/b: Permission denied\n"),
        (
            OSError(28, "No space left on device"),
            2,
            "prog: No space left on device; free disk space and run this again\n",
        ),
        (MemoryError(), 2, "prog: not enough memory; use a machine with more memory\n"),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
    ],
)
def test_user_errors_are_reported_in_one_line(capsys, error, code, message):
    assert run_command("prog", raising(error)) == code
    assert capsys.readouterr().err == message


def test_other_errors_keep_their_traceback():
    with pytest.raises(ValueError, match="ours"):
        run_command("prog", raising(ValueError("ours")))


def test_the_exit_code_of_success_is_0():
    assert run_command("prog", lambda: None) == 0
