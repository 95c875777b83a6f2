"""Documents as spans of one flat id array come in; text pairs for next sentence prediction go out.

The pairing is that of google-research/bert `create_pretraining_data.py`, with these corrections:
the short length is drawn for each pair and not once for a document; random and true next texts are
balanced exactly as far as the corpus allows; the random text is always of another document; a
single sentence may be followed by its true next one (in the original it never is).
"""

from collections.abc import Iterator
from random import Random

from bert_keras.errors import InputError
from tfrecords_tools.documents import Documents
from tfrecords_tools.instances import NUM_SPECIALS


def pairs_of(
    documents: Documents, *, max_length: int, short_sequence_rate: float, random: Random
) -> Iterator[tuple[int, int, int, int, bool]]:
    """One pass over all documents: (start A, end A, start B, end B, B is random), not yet cut."""
    if len(documents) < 2:
        raise InputError(
            "next sentence prediction needs at least two documents, for a random next text comes "
            "from another one; put blank lines between documents or give more files"
        )
    limit = max_length - NUM_SPECIALS
    balance = 0  # random pairs so far, less the others
    for number, bounds in enumerate(documents.bounds):
        first, num_sentences = 0, len(bounds) - 1
        while first < num_sentences:
            target = limit
            if random.random() < short_sequence_rate:
                target = random.randint(2, limit)
            last = first + 1
            while last < num_sentences and bounds[last] - bounds[first] < target:
                last += 1
            is_random = random.random() < 0.5 if balance == 0 else balance < 0
            if last - first == 1 and not is_random:
                last = min(last + 1, num_sentences)  # the true next sentence comes along
            if last - first == 1:
                is_random = True
            balance += 1 if is_random else -1
            end_a = first + (random.randint(1, last - first - 1) if last - first > 1 else 1)
            if is_random:
                room = target - (bounds[end_a] - bounds[first])
                start_b, end_b = _random_next(documents.bounds, number, room, random)
                last = end_a  # sentences that were not used are put back
            else:
                start_b, end_b = bounds[end_a], bounds[last]
            yield bounds[first], bounds[end_a], start_b, end_b, is_random
            first = last


def _random_next(
    all_bounds: list[list[int]], number: int, room: int, random: Random
) -> tuple[int, int]:
    """Whole sentences of another document than `number`, at least one, until they fill `room`."""
    other = random.randrange(len(all_bounds) - 1)
    bounds = all_bounds[other + (other >= number)]
    first = random.randrange(len(bounds) - 1)
    last = first + 1
    while last < len(bounds) - 1 and bounds[last] - bounds[first] < room:
        last += 1
    return bounds[first], bounds[last]
