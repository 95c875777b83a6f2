"""Draws all instances of a token store and the order of the records, and stores both on disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bert_keras.files import atomic_folder
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.sampling import (
    FastRandom,
    Pair,
    chosen_tokens,
    pairs_of,
    replacement_ids,
)
from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings
from tfrecords_tools.text.store import INDEX_DTYPE, TokenStore

ROWS, ORDER = "rows", "order"
ORDER_DTYPE = np.dtype("<u4")  # of an instance
BATCH_ROWS = 1024  # each leaves some 64 kB of the store in memory


@dataclass(frozen=True)
class DrawInstances:
    """A job that writes a folder with all instances as rows and the order of the records."""

    output: Path
    store: Path
    vocabulary: Path
    settings: GoogleSettings

    @property
    def size(self) -> int:
        return TokenStore(self.store).num_sentences * self.settings.duplicates

    def __call__(self, advance: Callable[[int], object]) -> None:
        store, generator = TokenStore(self.store), FastRandom(self.settings.seed)
        with (
            atomic_folder(self.output) as folder,
            (folder / ROWS).open("wb") as file,
            (folder / ORDER).open("wb") as order,
        ):
            count, rows = 0, self._rows(store, generator, advance)
            while batch := list(islice(rows, BATCH_ROWS)):
                file.write(np.array(batch, INDEX_DTYPE).tobytes())
                count += len(batch)
                store.release()
            generator.shuffled(count).tofile(order)

    def _rows(
        self, store: TokenStore, generator: FastRandom, advance: Callable[[int], object]
    ) -> Iterator[list[int]]:
        """Yields each pair as the values of a row; see `row_dtype`."""
        settings, vocabulary = self.settings, Vocabulary.from_file(self.vocabulary)
        is_word_start = None
        if settings.mask_unit == "word":
            is_word_start = np.array([not token.startswith("##") for token in vocabulary.tokens])
        order = generator.shuffled(store.num_documents)
        for _ in range(settings.duplicates):
            for pair in pairs_of(store, order, settings, generator=generator, advance=advance):
                num_tokens = pair.length_a + pair.length_b + NUM_SPECIALS
                num_predictions = max(1, round(num_tokens * settings.mask_rate))
                num_predictions = min(settings.max_predictions, num_predictions)
                chosen = chosen_tokens(
                    store, pair, num_predictions, is_word_start=is_word_start, generator=generator
                )
                new_ids = replacement_ids(
                    len(chosen), generator, vocabulary.mask_id, len(vocabulary)
                )
                empty = [0] * (settings.max_predictions - len(chosen))
                yield [*pair, len(chosen), *chosen, *empty, *new_ids, *empty]


def row_dtype(settings: GoogleSettings) -> np.dtype:
    """Returns the type of a row: a `Pair`, its chosen tokens, and the ids that replace them."""
    return np.dtype(
        [
            *((name, INDEX_DTYPE) for name in (*Pair._fields, "num_chosen")),
            ("chosen", INDEX_DTYPE, settings.max_predictions),
            ("replacements", INDEX_DTYPE, settings.max_predictions),
        ]
    )
