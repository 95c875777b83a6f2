"""Text, one sentence a line, comes in; the records of the original writer go out, in its order.

Feature by feature these are the records of google-research/bert `create_pretraining_data.py` for
the same files, vocabulary, seed and options, with all its ways: a random next text may be of the
same document where ten draws find no other, a short length holds for a whole document, and so on.
They differ where `bert_keras.text.tokenizer` says that the tokens of rare characters do. Refused
are a corpus with fewer records than shards, of which the original makes empty files, input of
another format, a vocabulary that holds a piece twice, and what makes the original fail: text that
is not UTF-8, lengths under 5.

Ids, instances and their order lie on disk. Memory holds 4 bytes a document while the instances are
drawn, 4 bytes a record while they are shuffled, and the longest line.
"""

from collections.abc import Sequence
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.google.instances import NUMBER, ORDER, DrawInstances, opened
from tfrecords_tools.google.records import WriteRecords
from tfrecords_tools.google.settings import GoogleSettings
from tfrecords_tools.google.tokens import TokenizeFiles
from tfrecords_tools.jobs import Workers

SHARD_COUNTS = ("file", "records", "bytes", "sha256")


def write_google(
    files: Sequence[str],
    *,
    vocabulary: Path,
    settings: GoogleSettings,
    outputs: Sequence[Path],
    work: Path,
    workers: Workers,
) -> dict:
    """Writes the records in turn to `outputs`; returns what the manifest says of them.

    `work` keeps what is needed on the way: 2 bytes a piece, 32 a record and 6 more a prediction.
    What stands there or in `outputs` already is taken as made by the same call. The first two
    stages are one job each, for every draw depends on all before it.
    """
    store, instances = work / "store", work / "instances"
    tokens = TokenizeFiles(store, tuple(files), vocabulary, settings.lowercase)
    workers.run([tokens], stage="tokenize", unit="B")
    draw = DrawInstances(instances, store, vocabulary, settings)
    workers.run([draw], stage="draw", unit="sentence")
    num_records = (instances / ORDER).stat().st_size // NUMBER.itemsize
    if num_records < len(outputs):
        raise InputError(
            f"the corpus gives {num_records:,} records for {len(outputs):,} shards; give more text "
            "or ask for fewer"
        )
    jobs = [
        WriteRecords(
            output=output,
            counts=work / f"{output.name}.json",
            turns=range(number, num_records, len(outputs)),
            instances=instances,
            store=store,
            vocabulary=vocabulary,
            settings=settings,
        )
        for number, output in enumerate(outputs)
    ]
    workers.run(jobs, stage="write", unit="record")
    return _told(jobs)


def _told(jobs: Sequence[WriteRecords]) -> dict:
    """What the manifest says of a split."""
    store = opened(jobs[0].store, Vocabulary.from_file(jobs[0].vocabulary))
    counts = [json_object(job.counts) for job in jobs]
    sums = {
        name: sum(each[name] for each in counts) for name in ("records", "tokens", "labels_one")
    }
    return {
        "documents": store.num_documents,
        "sentences": store.num_sentences,
        "pieces": store.num_pieces,
        **sums,
        "sequences": sums["records"],
        "shards": [{name: each[name] for name in SHARD_COUNTS} for each in counts],
    }
