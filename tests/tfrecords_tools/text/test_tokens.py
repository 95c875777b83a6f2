import numpy as np

from tfrecords_tools.inputs.corpus import units
from tfrecords_tools.text.store import TokenStore
from tfrecords_tools.text.tokens import TextSettings, TokenizeUnit, counts_of, cut_to_fit


def tokenized(place, vocabulary, tmp_path, **changes):
    """Documents as sentences of pieces, and the counts."""
    vocabulary.save(tmp_path / "vocab.txt")
    settings = TextSettings(
        **{
            "vocabulary": tmp_path / "vocab.txt",
            "lowercase": True,
            "splitter": "en",
            "segmenter": None,
            "errors": "fail",
            "longest": 100,
            **changes,
        }
    )
    (unit,) = units([place], unit_bytes=1 << 20)
    told = []
    job = TokenizeUnit(unit, tmp_path / "tokens", settings)
    job(told.append)
    assert sum(told) == job.size == place.stat().st_size
    store = TokenStore(job.output, dtype=settings.dtype)
    documents = []
    for number in range(store.num_documents):
        first, last = store.documents(number, number + 1)
        places = store.sentences(first, last).tolist()
        ids = np.frombuffer(store.pieces(places[0], places[-1]), store.dtype)
        sentences = np.split(ids, np.array(places[1:-1], int) - places[0])
        documents.append([each.tolist() for each in sentences])
    return documents, counts_of(job.output)


def words(documents, vocabulary):
    return [
        [" ".join(vocabulary.pieces[number] for number in sentence) for sentence in document]
        for document in documents
    ]


def test_documents_sentences_and_pieces(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("Ada sees cats. And Ben too!\nCy.\n\n\nDora likes Zed.\n")
    documents, (counts, repairs) = tokenized(tmp_path / "a.txt", vocabulary, tmp_path)
    assert words(documents, vocabulary) == [
        ["ada sees cats .", "and ben too !", "cy ."],
        ["dora likes [UNK] ."],
    ]
    assert counts == {"unknown": 1, "long_sentences_cut": 0, "documents": 2}
    assert repairs.summary() == {}


def test_lines_are_left_whole_where_asked(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("Ada sees cats. And Ben too!\n")
    documents, _ = tokenized(tmp_path / "a.txt", vocabulary, tmp_path, splitter="lines")
    assert words(documents, vocabulary) == [["ada sees cats . and ben too !"]]


def test_long_sentences_are_cut_and_counted(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("cats " * 23 + "\nmaps\n")
    documents, (counts, _) = tokenized(tmp_path / "a.txt", vocabulary, tmp_path, longest=10)
    assert [len(each) for each in documents[0]] == [8, 8, 7, 1]
    assert counts["long_sentences_cut"] == 1


def test_only_the_first_part_opens_a_document():
    lengths, opens = cut_to_fit(np.array([3, 0, 25]), np.array([True, False, True]), longest=10)
    assert lengths.tolist() == [3, 0, 9, 8, 8]
    assert opens.tolist() == [True, False, True, False, False]
