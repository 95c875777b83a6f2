import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

SPECIALS = "".join(f"{piece}\n" for piece in SPECIAL_PIECES).encode()


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
        (SPECIALS + b"a\nb\na\na\n", "lines 6 and 8 of the vocabulary are both 'a'; expected each"),
        (SPECIALS + b"a\n\nb\n", "line 7 of the vocabulary, '', is blank or holds white"),
        (SPECIALS + b"a\n \t\r\nb\n", "line 7 of the vocabulary, ' .*', is blank"),
        (SPECIALS + b"a\n\n", "line 7 of the vocabulary, '', is blank"),
        (
            SPECIALS + b"the\t17\n",
            r"line 6 of the vocabulary, 'the\\t17', is blank or",
        ),
        (
            SPECIALS.replace(b"\n", b"\r"),
            r"line 1 of the vocabulary, '\[PAD\]\\r.*is blank or holds white space",
        ),
        (b"[PAD]\n\xff\n", "line 2 is not UTF-8"),
        ("[PAD]\n".encode("utf-16"), "line 1 is not UTF-8"),
    ],
)
def test_unusable_files_are_named(tmp_path, content, told):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}.*{told}"):
        Vocabulary.from_file(path)


def test_white_space_beyond_ascii_is_a_piece_as_in_the_chinese_vocabulary_of_google(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(SPECIALS + "\u2028\n##\u2028\n\u00a0\n\u3000\n\u200b\n日\n".encode())
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.pieces[5:] == ("\u2028", "##\u2028", "\u00a0", "\u3000", "\u200b", "日")
    vocabulary.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


def test_padding_appends_pieces_that_no_text_has():
    vocabulary = Vocabulary((*SPECIAL_PIECES, "[unused0]", "a", "[unused2]"))
    assert vocabulary.padded(8) == vocabulary
    assert vocabulary.padded(11).pieces == (
        *vocabulary.pieces,
        "[unused1]",
        "[unused3]",
        "[unused4]",
    )
    with pytest.raises(InputError, match="vocabulary has 8 pieces; expected at most 7, the rows"):
        vocabulary.padded(7)


@pytest.mark.parametrize(("name", "size"), [("uncased", 30522), ("cased", 28996)])
def test_published_vocabularies_load(shared_data, name, size):
    vocabulary = Vocabulary.from_file(shared_data / f"vocab/bert-base-{name}-vocab.txt")
    assert len(vocabulary) == size
    assert vocabulary.mask_id == 103


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt does not exist; expected a file"):
        Vocabulary.from_file(tmp_path / "none.txt")
