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
    ("content", "message"),
    [
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"lacks \[MASK\]"),
        (SPECIALS + b"a\nb\na\na\n", "line 6 .*'a'"),
        (SPECIALS + b"a\n \t\r\nb\n", "line 7 "),
        (SPECIALS + b"a\n\n", "line 7 .*''"),
        (SPECIALS + b"the\t17\n", r"line 6 .*'the\\t17'"),
        (SPECIALS.replace(b"\n", b"\r"), r"line 1 .*'\[PAD\]\\r"),
        (SPECIALS + "▁the\n".encode(), "tokens of SentencePiece"),
        (b"[PAD]\n\xff\n", "line 2 is not UTF-8"),
    ],
)
def test_unusable_files_are_refused(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
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
