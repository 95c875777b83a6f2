"""Counted words come in; those that a trainer learns from go out, as often as each was counted."""

from collections.abc import Iterator, Mapping

from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS
from tfrecords_tools.vocab.vocab_sample import MOST_LEARNT

MIN_COUNT = 2  # a character or pair seen once teaches nothing
REPEATS_PER_TEXT = 1000  # how a word count is handed to the trainer


def most_frequent(words: Mapping[str, int]) -> dict[str, int]:
    """None that is too long for a word, and `MOST_LEARNT` at most."""
    kept = {word: n for word, n in words.items() if len(word) <= MAX_WORD_CHARACTERS}
    if len(kept) > MOST_LEARNT:
        kept = dict(sorted(kept.items(), key=lambda each: (-each[1], each[0]))[:MOST_LEARNT])
    return kept


def repeated(words: Mapping[str, int], bar) -> Iterator[str]:
    """Every word as often as it was counted."""
    for word in sorted(words):
        count = words[word]
        bar.update(count)
        for start in range(0, count, REPEATS_PER_TEXT):
            yield f"{word} " * min(REPEATS_PER_TEXT, count - start)
