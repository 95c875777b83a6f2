"""Normalizes texts inside a TF graph by the rules of a Unigram tokenizer.json."""

import json
from collections.abc import Sequence

import tensorflow as tf
from tokenizers import normalizers

from bert_keras.errors import InputError
from bert_keras.exporting.text_ops.composition import Composition
from bert_keras.exporting.text_ops.flat import every_second, following, previous
from bert_keras.exporting.text_ops.graphemes import Graphemes
from bert_keras.exporting.text_ops.unicode_tables import (
    Replacements,
    replacements_of,
    without_surrogates,
)
from bert_keras.exporting.text_ops.words import Points, replaced

_ORDER = ("NFKD", "StripAccents", "Lowercase", "NFC", "Precompiled")
_SPACES = {"Regex": " {2,}"}  # without effect, because texts are split at spaces
_DOUBLE_QUOTE = ord('"')
_QUOTES = "`'"  # two equal ones become a double quote


class Normalization(tf.Module):
    """Normalizes texts as a normalizer of the library `tokenizers`.

    Args:
        rules: The value of `normalizer` in a tokenizer.json, {} without one.

    Raises:
        InputError: The graph ops cannot follow the rules.
    """

    def __init__(self, rules: dict):
        super().__init__()
        steps = rules.get("normalizers", [rules] if rules else [])
        self._has_quotes = len(_checked_patterns(steps)) > 0
        steps = {step["type"]: step for step in steps if step["type"] != "Replace"}
        if [*steps] != [name for name in _ORDER if name in steps] or (
            ("NFKD" in steps) != ("StripAccents" in steps)
        ):
            _refuse([*steps])
        # Without accents, the normal form of a character does not depend on its neighbours.
        drops_accents = "StripAccents" in steps
        composes = steps.pop("NFC", None) is not None
        self._composition = Composition() if composes else None
        charsmap = None if drops_accents and not composes else steps.pop("Precompiled", None)
        self._replacements = _replacements([*steps.values()])
        self._graphemes = None
        if charsmap is not None:
            table = charsmap["precompiled_charsmap"]
            self._graphemes = Graphemes(table, _replacements([charsmap]))

    def __call__(self, points: Points) -> Points:
        """Returns normalized texts; the source indices are those of `tokenizers`.

        Args:
            points: All texts with a space after each.
        """
        if self._has_quotes:
            points = _with_double_quotes(points)
        points = replaced(points, self._replacements)
        if self._composition is not None:
            positions = tf.range(tf.size(points.values, tf.int64))
            composed = self._composition(points._replace(source_indices=positions))
            indices = tf.gather(points.source_indices, composed.source_indices)
            points = composed._replace(source_indices=indices)
        return self._graphemes(points) if self._graphemes is not None else points


def _checked_patterns(steps: Sequence[dict]) -> list[dict]:
    """Returns the steps that replace quotes.

    Raises InputError if a step replaces something else than quotes and spaces.
    """
    quotes = [{"String": 2 * each} for each in _QUOTES]
    replacing = [step for step in steps if step["type"] == "Replace" and step["pattern"] != _SPACES]
    found = [step["pattern"] for step in replacing if step["content"] == chr(_DOUBLE_QUOTE)]
    if replacing and found != quotes:
        _refuse([json.dumps(step["pattern"]) for step in replacing])
    return replacing


def _refuse(names: Sequence[str]) -> None:
    raise InputError(
        f"the tokenizer normalizes with {', '.join(names)}; an exported graph supports NFKD with "
        "StripAccents, Lowercase, NFC and Precompiled, in this order, and Replace for quotes"
    )


def _replacements(steps: list[dict]) -> Replacements:
    """Returns the normal form of each character by itself."""
    sequence = normalizers.Sequence([])
    sequence.__setstate__(json.dumps({"type": "Sequence", "normalizers": steps}).encode())

    def of_block(block: str) -> Sequence[str]:
        block = without_surrogates(block)
        joined = "a".join(block)
        if sequence.normalize_str(joined) == joined:
            return block
        return [*map(sequence.normalize_str, block)]

    return replacements_of(of_block)


def _with_double_quotes(points: Points) -> Points:
    """Replaces two equal quotes by one double quote, as `tokenizers` does.

    The double quote has the index of the second quote.
    """
    is_quote = [points.values == ord(quote) for quote in _QUOTES]
    is_left = every_second(tf.reduce_any([each & following(each, 1) for each in is_quote], axis=0))
    values = tf.where(previous(is_left, 1), _DOUBLE_QUOTE, points.values)
    return points._replace(values=values).without(is_left)
