import pytest

from bert_keras.errors import InputError, run_command


def raising(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("this came; that was expected"), 2, "prog: this came; that was expected\n"),
        (OSError(13, "Permission denied", "a/b"), 2, "prog: a/b: Permission denied\n"),
        (
            OSError(28, "No space left on device"),
            2,
            "prog: No space left on device; free some and run the same again\n",
        ),
        (MemoryError(), 2, "prog: there is not enough memory for this; give it more\n"),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
    ],
)
def test_what_a_user_can_cause_is_one_line(capsys, error, code, said):
    assert run_command("prog", raising(error)) == code
    assert capsys.readouterr().err == said


def test_our_own_faults_keep_their_traceback():
    with pytest.raises(ValueError, match="ours"):
        run_command("prog", raising(ValueError("ours")))


def test_success_is_zero():
    assert run_command("prog", lambda: None) == 0
