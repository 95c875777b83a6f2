"""Draws all instances of a token store and the order of the records, and stores both on disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from bert_keras.storage import whole_folder
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.draws import Draws, chosen_pieces, pairs_of, shown_instead
from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings
from tfrecords_tools.text.store import PLACE, TokenStore

ROWS, ORDER = "rows", "order"
NUMBER = np.dtype("<u4")  # of an instance
_ROWS_TOGETHER = 1024  # each leaves some 64 kB of the store in memory


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
        store, draws = TokenStore(self.store), Draws(self.settings.seed)
        with (
            whole_folder(self.output) as folder,
            (folder / ROWS).open("wb") as file,
            (folder / ORDER).open("wb") as order,
        ):
            count, rows = 0, self._rows(store, draws, advance)
            while together := list(islice(rows, _ROWS_TOGETHER)):
                file.write(np.array(together, PLACE).tobytes())
                count += len(together)
                store.release()
            draws.shuffled(count).tofile(order)

    def _rows(
        self, store: TokenStore, draws: Draws, advance: Callable[[int], object]
    ) -> Iterator[list[int]]:
        """Yields each pair as the numbers of a row; see `row_dtype`."""
        settings, vocabulary = self.settings, Vocabulary.from_file(self.vocabulary)
        opens_word = None
        if settings.mask_unit == "word":
            opens_word = np.array([not piece.startswith("##") for piece in vocabulary.pieces])
        order = draws.shuffled(store.num_documents)
        for _ in range(settings.duplicates):
            for place in range(len(order)):
                for pair in pairs_of(
                    store,
                    order,
                    place,
                    limit=settings.max_length - NUM_SPECIALS,
                    short_sequence_rate=settings.short_sequence_rate,
                    draws=draws,
                    advance=advance,
                ):
                    num_pieces = pair.length_a + pair.length_b
                    wanted = max(1, round((num_pieces + NUM_SPECIALS) * settings.mask_rate))
                    wanted = min(settings.max_predictions, wanted)
                    chosen = chosen_pieces(store, pair, wanted, opens_word=opens_word, draws=draws)
                    shown = shown_instead(len(chosen), draws, vocabulary.mask_id, len(vocabulary))
                    empty = [0] * (settings.max_predictions - len(chosen))
                    yield [*pair, len(chosen), *chosen, *empty, *shown, *empty]


def row_dtype(settings: GoogleSettings) -> np.dtype:
    """Returns the type of a row: a `Pair`, its chosen tokens, and the ids that replace them."""
    return np.dtype(
        [
            ("start_a", PLACE),
            ("length_a", PLACE),
            ("start_b", PLACE),
            ("length_b", PLACE),
            ("is_random", PLACE),
            ("num_chosen", PLACE),
            ("chosen", PLACE, settings.max_predictions),
            ("shown", PLACE, settings.max_predictions),
        ]
    )
