"""Records from Korean text: jamo, syllables, morphemes and eojeol."""

import unicodedata

import pytest

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tfrecords_tools.build import build
from tfrecords_tools.cli import main
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.vocab import train_vocabulary

WORDS = ". 서울 학교 학생 비 우리 ##학교 ##에서 ##는 ##가 ##들"
SYLLABLES = Vocabulary((*SPECIAL_TOKENS, *WORDS.split()))
TEXT = "\n\n".join(
    "\n".join(f"서울에서는 비가 {end}. 우리학교 학생들가" for end in ends)
    for ends in (["우리", "학교", "비"] * 4, ["비", "학생들", "서울가"] * 4, ["비"] * 8)
)


def decomposed(text):
    return unicodedata.normalize("NFD", text)


@pytest.fixture
def files(tmp_path):
    """The text composed and decomposed, with the same name in two folders."""
    for name, text in (("nfc", TEXT), ("nfd", decomposed(TEXT))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(text, "utf-8")
    return {name: [tmp_path / name / "a.txt"] for name in ("nfc", "nfd")}


def test_a_vocabulary_that_does_not_fit_the_text_is_noted(files, tmp_path, capsys):
    SYLLABLES.save(tmp_path / "vocab.txt")
    build = ["build", str(files["nfc"][0]), "--vocab", str(tmp_path / "vocab.txt"), "--splitter"]
    build += ["ko", "--max-length", "32", "--workers", "1", "--output"]
    assert main([*build, str(tmp_path / "uncased")]) == 0
    assert "% of the tokens are [UNK]" in capsys.readouterr().err
    assert main([*build, str(tmp_path / "cased"), "--cased"]) == 0
    assert "note" not in capsys.readouterr().err


@pytest.mark.parametrize("lowercase", [False, True])
def test_decomposed_text_gives_the_records_of_composed_text(files, tmp_path, lowercase):
    settings = BuildSettings(lowercase=lowercase, splitter="ko", max_length=32, shards=1)
    shards = []
    for name, paths in files.items():
        build(paths, vocabulary=SYLLABLES, output=tmp_path / f"{name}-records", settings=settings)
        shards.append((tmp_path / f"{name}-records/train-00000-of-00001.tfrecord").read_bytes())
    assert shards[0] == shards[1]


def test_a_cased_vocabulary_is_of_syllables_and_another_of_jamo(files, tmp_path):
    notes = []
    cased = train_vocabulary(files["nfd"], size=60, lowercase=False, log=notes.append)
    assert "서울에서는" in cased.ids and not any("learnt as jamo" in note for note in notes)
    uncased = train_vocabulary(files["nfc"], size=90, log=notes.append)
    assert decomposed("서울에서는") in uncased.ids
    assert all(decomposed(token) == token for token in uncased.tokens)
    assert notes[-1].startswith("Hangul is learnt as jamo")


def test_no_token_crosses_the_limits_of_morphemes(files, tmp_path, monkeypatch, capsys):
    (tmp_path / "korean.py").write_text(
        "import re\n\ndef morphemes(word):\n"
        "    return re.findall('에서|[는가들]|.+?(?=에서|[는가들]|$)', word)\n"
        "\ndef letters(word):\n    return list(word)[1:]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = ["vocab", str(files["nfc"][0]), "--cased", "--unused", "0", "--size", "60"]
    output = tmp_path / "vocab.txt"
    arguments = [*command, "--output", str(output), "--workers", "1", "--segmenter"]
    assert main([*arguments, "korean:morphemes"]) == 0
    tokens = Vocabulary.from_file(output).tokens
    assert {"서울", "##학교", "##에서", "##는", "우리학교", "학생", "##들"} <= {*tokens}
    assert not {"##", "###", "서울에서", "##에서는"} & {*tokens}
    output.unlink()
    assert main([*arguments, "korean:letters"]) == 2
    assert "the segmenter's words differ from the text" in capsys.readouterr().err
