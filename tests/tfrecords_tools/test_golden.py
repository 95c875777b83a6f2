"""The bytes of records are those of earlier versions and do not depend on the processes."""

from hashlib import sha256

import pytest

from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings

SMALL = {"max_length": 40, "max_predictions": 6, "duplicates": 2}
N_GRAMS = {"mask_unit": "word", "max_ngram": 3}
PACKED = {"sequences_per_record": 3, "max_length": 90, "short_sequence_rate": 0.5}
DOCUMENTS = {"objective": "doc-sentences", "splitter": "lines", "replacement": "100-0-0"}
CASES = {  # settings, and the start of the SHA-256 of the concatenated files, written by 0.2.0
    "pairs": ({"held_out_rate": 0.3, "shards": 2}, "9e0eda8a28ce3f9e"),
    "word n-grams": ({"objective": "sop", **N_GRAMS, "seed": 1}, "29cd1c1d11b8ca81"),
    "several in a record": (PACKED, "e5b4ca923b9e0007"),
    "plain ids": ({"objective": "full-sentences", "max_predictions": 0}, "cce8ecff78f68b6d"),
    "documents": (DOCUMENTS, "ee6275d92f603c57"),
}


@pytest.mark.parametrize("case", CASES)
def test_known_records(corpus, vocabulary, tmp_path, case):
    changes, known = CASES[case]
    folder, settings = tmp_path / "records", BuildSettings(**{**SMALL, **changes})
    manifest = build(corpus, vocabulary=vocabulary, output=folder, settings=settings)
    names = [shard["file"] for split in manifest["splits"].values() for shard in split["shards"]]
    assert sha256(b"".join((folder / n).read_bytes() for n in names)).hexdigest()[:16] == known


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_workers_do_not_change_the_bytes(corpus, vocabulary, tmp_path, monkeypatch, workers):
    monkeypatch.setattr("tfrecords_tools.build.BYTES_PER_WORKER", 1)
    monkeypatch.setattr("tfrecords_tools.corpus.UNIT_BYTES", 500)
    monkeypatch.setattr("tfrecords_tools.store.SENTENCES_PER_RANGE", 20)
    settings = BuildSettings(**SMALL, held_out_rate=0.3, shards=5)
    arguments = {"vocabulary": vocabulary, "settings": settings}
    first = build(corpus, output=tmp_path / "a", **arguments)
    assert build(corpus, output=tmp_path / "b", **arguments, workers=workers) == first
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()
