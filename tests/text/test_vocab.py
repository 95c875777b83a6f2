import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary


def test_ids_are_line_numbers(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\n[UNK]\n[CLS]\n[SEP]\n[MASK]\né\n##b\n".encode())
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.pieces == (*SPECIAL_PIECES, "é", "##b")
    assert len(vocabulary) == 7
    assert vocabulary.ids["##b"] == 6
    specials = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.sep_id)
    assert (*specials, vocabulary.mask_id) == (0, 1, 2, 3, 4)


def test_saved_file_is_read_back(tmp_path):
    vocabulary = Vocabulary((*SPECIAL_PIECES, "ﬁ", "##日"))
    vocabulary.save(tmp_path / "vocab.txt")
    assert Vocabulary.from_file(tmp_path / "vocab.txt") == vocabulary
    assert (tmp_path / "vocab.txt").read_bytes().endswith("ﬁ\n##日\n".encode())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the vocabulary is empty; expected one piece a line"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"the vocabulary lacks \[MASK\]; BERT needs"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n", "holds 'a' 2 times; expected it once"),
        (b"[PAD]\n\xff\n", "line 2 is not UTF-8"),
    ],
)
def test_unusable_files_are_named(tmp_path, content, told):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}.*{told}"):
        Vocabulary.from_file(path)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt does not exist; expected a file"):
        Vocabulary.from_file(tmp_path / "none.txt")
