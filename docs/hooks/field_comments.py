"""Griffe extension: lists the commented fields of a dataclass as attributes of the class."""

from typing import Any

import griffe

import bert_keras
from bert_keras.fields import field_comments


class FieldComments(griffe.Extension):
    """Adds a section `Attributes:` to the docstring of public dataclasses with commented fields."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Griffe calls it after it has collected a class with its members."""
        is_listed = cls.name in bert_keras.__all__ and cls.docstring is not None
        if not is_listed or "dataclass" not in cls.labels:
            return
        comments = field_comments(getattr(bert_keras, cls.name)).items()
        if rows := [f"    {name}: {comment}" for name, comment in comments if comment]:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)
