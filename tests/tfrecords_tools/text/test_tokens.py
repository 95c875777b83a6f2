import numpy as np
import pytest

from bert_keras.data.records import common_schema
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.inputs.corpus import units
from tfrecords_tools.inspect.verify import every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.store import TokenStore
from tfrecords_tools.text.tokens import TokenizeUnit, counts_of, cut_to_fit


def tokenized(path, vocabulary, tmp_path, **changes):
    """Returns documents as lists of sentences of ids, and the counts."""
    vocabulary.save(tmp_path / "vocab.txt")
    settings = BuildSettings(**{"max_predictions": 5, **changes})
    (unit,) = units([path], unit_bytes=1 << 20)
    job = TokenizeUnit(unit, tmp_path / "tokens", tmp_path / "vocab.txt", settings)
    job(lambda _: None)
    assert job.size == path.stat().st_size
    store = TokenStore(job.output)
    documents = []
    for number in range(store.num_documents):
        first, last = store.documents(number, number + 1)
        bounds = store.sentences(first, last).tolist()
        ids = np.frombuffer(store.tokens(bounds[0], bounds[-1]), store.dtype)
        sentences = np.split(ids, np.array(bounds[1:-1], int) - bounds[0])
        documents.append([each.tolist() for each in sentences])
    return documents, counts_of(job.output)


def words(documents, vocabulary):
    return [
        [" ".join(vocabulary.tokens[number] for number in sentence) for sentence in document]
        for document in documents
    ]


def test_documents_sentences_and_tokens(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("Ada sees cats. And Ben too!\nCy.\n\n\nDora likes Zed.\n")
    documents, (counts, repairs) = tokenized(tmp_path / "a.txt", vocabulary, tmp_path)
    assert words(documents, vocabulary) == [
        ["ada sees cats .", "and ben too !", "cy ."],
        ["dora likes [UNK] ."],
    ]
    assert counts == {"unknown": 1, "long_sentences_cut": 0, "documents": 2}
    assert repairs.summary() == {}


def test_the_splitter_lines_keeps_lines_together(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("Ada sees cats. And Ben too!\n")
    documents, _ = tokenized(tmp_path / "a.txt", vocabulary, tmp_path, splitter="lines")
    assert words(documents, vocabulary) == [["ada sees cats . and ben too !"]]


def test_long_sentences_are_cut_and_counted(vocabulary, tmp_path):
    (tmp_path / "a.txt").write_text("cats " * 23 + "\nmaps\n")
    documents, (counts, _) = tokenized(tmp_path / "a.txt", vocabulary, tmp_path, max_length=13)
    assert [len(each) for each in documents[0]] == [8, 8, 7, 1]
    assert counts["long_sentences_cut"] == 1


def test_only_the_first_part_of_a_sentence_starts_a_document():
    lengths, opens = cut_to_fit(np.array([3, 0, 25]), np.array([True, False, True]), longest=10)
    assert lengths.tolist() == [3, 0, 9, 8, 8]
    assert opens.tolist() == [True, False, True, False, False]


WORDS = ["今天", "北京", "语言", "模型", "学生", "音乐", "朋友", "研究"]  # no character twice


@pytest.mark.parametrize("workers", [1, 2])
def test_a_segmenter_function_masks_whole_chinese_words(tmp_path, monkeypatch, workers):
    (tmp_path / "own_words.py").write_text(
        "def pairs(text): return [text[n : n + 2] for n in range(0, len(text), 2)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["".join(WORDS[n % 8] for n in range(line, line + 5)) + "。" for line in range(40)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "。", *"".join(WORDS)))
    settings = BuildSettings(
        splitter="zh",
        segmenter="own_words:pairs",
        mask_unit="word",
        objective="full-sentences",
        max_length=50,
    )
    records = tmp_path / "records"
    build(
        [tmp_path / "a.txt"],
        vocabulary=vocabulary,
        output=records,
        settings=settings,
        workers=workers,
    )
    files, num_words = every_file(records), 0
    for file in files:
        for batch in parsed_batches(file, schema=common_schema(files)):
            for positions, masked_ids in zip(
                batch["masked_lm_positions"], batch["masked_lm_ids"], strict=True
            ):
                predicted = {
                    position: vocabulary.tokens[masked_id]
                    for position, masked_id in zip(
                        positions.tolist(), masked_ids.tolist(), strict=True
                    )
                    if position
                }
                text = "".join(predicted[position] for position in sorted(predicted)).replace(
                    "。", ""
                )
                pairs = [text[n : n + 2] for n in range(0, len(text), 2)]
                assert set(pairs) <= set(WORDS)
                num_words += len(pairs)
    assert num_words > 50
