"""What of a card stands in a foreign format's file under a key of ours, where bert-keras wrote it.

Readers of that format pass such a key over.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from bert_keras.errors import InputError

OURS_KEY = "bert_keras"
CARD = {
    "lowercase": bool,
    "max_length": int,
    "text_columns": list,
    "labels": list,
    "problem_type": str,
    "task": dict,
}
TEXTS = ("text_columns", "labels")


def checked(own: Any, path: Path, *, fields: Collection[str]) -> dict[str, Any]:
    """`own` of the file `path`; InputError for anything but CARD, of its types, and `fields`."""
    right = (
        isinstance(own, dict)
        and set(own) <= {*CARD, *fields}
        and all(type(own.get(name, kind())) is kind for name, kind in CARD.items())
        and all(type(text) is str for name in TEXTS for text in own.get(name, ()))
    )
    if not right:
        raise InputError(f"{path}: {OURS_KEY} is not what bert-keras wrote; remove that key")
    return own
