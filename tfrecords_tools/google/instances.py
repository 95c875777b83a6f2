"""Draws all instances of a token store, as rows on disk, and the order to write them in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from bert_keras.storage import whole_folder
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.draws import (
    Choice,
    Draws,
    Pair,
    pairs_of,
    piece_choice,
    shown_instead,
    word_choice,
)
from tfrecords_tools.settings import NUM_SPECIALS, GoogleSettings
from tfrecords_tools.text.store import TokenStore, piece_dtype

ROWS, ORDER = "rows", "order"
NUMBER = np.dtype("<u4")  # of an instance
_ROWS_TOGETHER = 1024  # each leaves some 64 kB of the store in memory


@dataclass(frozen=True)
class DrawInstances:
    """A job: a folder with all instances as rows, and the order in which they are written."""

    output: Path
    store: Path
    vocabulary: Path
    settings: GoogleSettings

    @property
    def size(self) -> int:
        store = opened(self.store, Vocabulary.from_file(self.vocabulary))
        return store.num_sentences * self.settings.duplicates

    def __call__(self, advance: Callable[[int], object]) -> None:
        vocabulary, draws = Vocabulary.from_file(self.vocabulary), Draws(self.settings.seed)
        store = opened(self.store, vocabulary)

        with (
            whole_folder(self.output) as folder,
            (folder / ROWS).open("wb") as file,
            (folder / ORDER).open("wb") as order,
        ):
            count, dtype = 0, row_dtype(self.settings)
            drawn = self._drawn(store, vocabulary, draws, advance)
            while together := list(islice(drawn, _ROWS_TOGETHER)):
                file.write(_rows_of(together, dtype).tobytes())
                count += len(together)
                store.release()
            draws.shuffled(count).tofile(order)

    def _drawn(
        self,
        store: TokenStore,
        vocabulary: Vocabulary,
        draws: Draws,
        advance: Callable[[int], object],
    ) -> Iterator[tuple[Pair, Sequence[int], Sequence[int]]]:
        """Every pair, the pieces chosen of it, and what is shown for them."""
        settings, choose = self.settings, self._choice(store, vocabulary, draws)
        mask_id, num_ids = vocabulary.mask_id, len(vocabulary)
        order = draws.shuffled(store.num_documents)
        for _ in range(settings.duplicates):
            for place in range(len(order)):
                pairs = pairs_of(
                    store,
                    order,
                    place,
                    limit=settings.max_length - NUM_SPECIALS,
                    short_sequence_rate=settings.short_sequence_rate,
                    draws=draws,
                    advance=advance,
                )
                for pair in pairs:
                    chosen = choose(pair, settings.num_predictions(pair.length_a + pair.length_b))
                    yield pair, chosen, shown_instead(len(chosen), draws, mask_id, num_ids)

    def _choice(self, store: TokenStore, vocabulary: Vocabulary, draws: Draws) -> Choice:
        if self.settings.mask_unit == "piece":
            return piece_choice(draws)
        opens_word = np.array([not piece.startswith("##") for piece in vocabulary.pieces])
        return word_choice(draws, store, opens_word=opens_word)


def row_dtype(settings: GoogleSettings) -> np.dtype:
    """How an instance lies on disk: its spans, the pieces chosen, what is shown for them."""
    return np.dtype(
        [
            ("starts", "<i8", 2),
            ("lengths", "<u4", 2),
            ("is_random", "<u4"),
            ("num_chosen", "<u4"),
            ("chosen", piece_dtype(settings.max_length), settings.max_predictions),
            ("shown", "<i4", settings.max_predictions),
        ]
    )


def filled(rows: np.ndarray) -> np.ndarray:
    """bool [B,P]: which places for predictions hold one."""
    return np.arange(rows["chosen"].shape[1]) < rows["num_chosen"][:, None]


def opened(folder: Path, vocabulary: Vocabulary) -> TokenStore:
    """The token store in a folder."""
    return TokenStore(folder, dtype=piece_dtype(len(vocabulary)))


def _rows_of(
    drawn: Sequence[tuple[Pair, Sequence[int], Sequence[int]]], dtype: np.dtype
) -> np.ndarray:
    """Instances as rows: each is a pair, the pieces chosen of it, and what is shown for them."""
    pairs, chosen, shown = zip(*drawn, strict=True)
    table = np.array(pairs, np.int64)
    rows = np.zeros(len(table), dtype)
    rows["starts"], rows["lengths"], rows["is_random"] = (
        table[:, 0:4:2],
        table[:, 1:4:2],
        table[:, 4],
    )
    rows["num_chosen"] = [len(each) for each in chosen]
    is_filled = filled(rows)
    rows["chosen"][is_filled] = list(chain.from_iterable(chosen))
    rows["shown"][is_filled] = list(chain.from_iterable(shown))
    return rows
