"""Griffe extension: lists the fields of a dataclass as attributes of the class."""

import inspect
from typing import Any

import griffe

import bert_keras


class FieldComments(griffe.Extension):
    """Takes the docstrings of public dataclasses as `help` shows them; see bert_keras/fields.py."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Griffe calls it after it has collected a class with its members."""
        is_listed = cls.name in bert_keras.__all__ and cls.docstring is not None
        if is_listed and "dataclass" in cls.labels:
            cls.docstring.value = inspect.getdoc(getattr(bert_keras, cls.name))
