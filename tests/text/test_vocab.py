import pytest

from bert_keras.errors import InputError
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

SPECIALS = "".join(f"{token}\n" for token in SPECIAL_TOKENS).encode()


def test_ids_are_line_numbers(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\n[UNK]\n[CLS]\n[SEP]\n[MASK]\né\n##b\n".encode())
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens == (*SPECIAL_TOKENS, "é", "##b")
    assert len(vocabulary) == 7 and vocabulary.ids["##b"] == 6
    specials = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.sep_id)
    assert (*specials, vocabulary.mask_id) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    "content",
    [
        b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n",
        *(SPECIALS + each for each in (b"a\nb\na\na\n", b"a\n \t\r\nb\n", b"a\n\n", b"the\t17\n")),
        *(SPECIALS + "▁the\n".encode(), SPECIALS + b"\xff\n"),
    ],
)
def test_unusable_files_are_refused(tmp_path, content):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError):
        Vocabulary.from_file(path)


def test_non_ascii_white_space_may_be_a_token(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(SPECIALS + "\u2028\n##\u2028\n\u00a0\n\u3000\n\u200b\n日\n".encode())
    vocabulary = Vocabulary.from_file(path)
    assert vocabulary.tokens[5:] == ("\u2028", "##\u2028", "\u00a0", "\u3000", "\u200b", "日")
    vocabulary.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


def test_padding_appends_unused_tokens():
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "[unused0]", "a", "[unused2]"))
    assert vocabulary.padded(8) == vocabulary
    assert vocabulary.padded(11).tokens[8:] == ("[unused1]", "[unused3]", "[unused4]")
