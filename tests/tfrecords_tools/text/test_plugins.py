import pytest

from bert_keras.errors import InputError
from tfrecords_tools.text.plugins import named_function


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_plugin.py").write_text(
        "number = 3\n"
        "def words(text): return text.split()\n"
        "def text(text): return text\n"
        "def lazily(text): return (word for word in text.split())\n"
        "def numbers(text): return [1, 2]\n"
        "def nothing(): return []\n"
    )
    (tmp_path / "own_broken.py").write_text("import no_such_module_anywhere")
    (tmp_path / "own_misspelt.py").write_text("def words(text) return text.split()")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_function_is_found_and_called():
    assert named_function("own_plugin:words")("a b") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("own_plugin", "'own_plugin' names no function; expected module:function"),
        ("own_plugin:", "names no function"),
        (":words", "names no function"),
        ("own_missing:words", r"cannot be imported \(No module named 'own_missing'\); install it"),
        ("own_broken:words", r"cannot be imported \(No module named 'no_such_module_anywhere'\)"),
        ("own_misspelt:words", r"fails when it is imported \(SyntaxError: .*; mend it"),
        ("own_plugin:other", r"other does not exist in .*own_plugin\.py; expected a function"),
        ("own_plugin:number", r"number is not a function in .*own_plugin\.py"),
    ],
)
def test_what_cannot_be_used_is_named(name, told):
    with pytest.raises(InputError, match=told):
        named_function(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("text", "own_plugin:text gave 'a b' for 'a b'; expected a list of texts"),
        ("lazily", r"gave <generator object .* for 'a b'; expected a list"),
        ("numbers", "gave a list that holds other things for 'a b'"),
        ("nothing", r"own_plugin:nothing fails for 'a b' \(TypeError: .*; expected a function"),
    ],
)
def test_a_wrong_answer_is_named(name, told):
    with pytest.raises(InputError, match=told):
        named_function(f"own_plugin:{name}")("a b")
