"""A name such as "jieba:lcut" comes in; the function of the user's that it names goes out."""

import importlib
from collections.abc import Callable
from functools import wraps

from bert_keras.errors import InputError

TextParts = Callable[[str], list[str]]


def named_function(name: str) -> TextParts:
    """The function "module:function", from one text to a list of texts; checked at every call."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InputError(f"{name!r} names no function; expected module:function, as in jieba:lcut")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"{name}: the module cannot be imported ({error}); install it, or put its folder on "
            "PYTHONPATH"
        ) from error
    except Exception as error:
        raise InputError(
            f"{name}: the module fails when it is imported ({_told(error)}); mend it"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "is not a function" if hasattr(module, function_name) else "does not exist"
        raise InputError(
            f"{name}: {function_name} {what} in {module.__file__ or module_name}; expected a "
            "function from one text to a list of texts"
        )

    @wraps(function)
    def checked(text: str) -> list[str]:
        try:
            parts = function(text)
        except Exception as error:
            raise InputError(
                f"{name} fails for {text[:40]!r} ({_told(error)}); expected a function from one "
                "text to a list of texts"
            ) from error
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            kind = "a list that holds other things" if isinstance(parts, list) else repr(parts)[:60]
            raise InputError(f"{name} gave {kind} for {text[:40]!r}; expected a list of texts")
        return parts

    return checked


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
