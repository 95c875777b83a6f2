"""What many tests need: a tiny configuration, vocabulary, corpus, records and model."""

from pathlib import Path

from bert_keras.config import BertConfig
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "a", "good", "bad", "film", "river", "bank", "was", "is", "un", "##s", "##ing", ".")
LINES = ("the river was good .", "a bad film is a bad film .", "the bank was the good bank .")


def tiny_config(**changes) -> BertConfig:
    """Returns a configuration of two layers of 16 with two heads."""
    sizes = {"vocab_size": len(tiny_vocabulary()), "max_positions": 64, "intermediate_size": 32}
    return BertConfig(**{"hidden_size": 16, "num_layers": 2, "num_heads": 2, **sizes, **changes})


def tiny_vocabulary() -> Vocabulary:
    """Returns an uncased WordPiece vocabulary of `WORDS`."""
    return Vocabulary((*SPECIAL_TOKENS, *WORDS))


def write_corpus(path: Path, *, documents: int = 20) -> Path:
    """Writes a corpus with a sentence on each line and a blank line between documents."""
    texts = ["\n".join(LINES[n % 3 :] + LINES[: n % 3]) for n in range(documents)]
    path.write_text("\n\n".join(texts) + "\n", "utf-8")
    return path


def write_records(folder: Path, *, max_length: int = 32, **settings) -> Path:
    """Writes record files of the corpus with their vocabulary; returns their folder."""
    from tfrecords_tools.build import build
    from tfrecords_tools.settings import BuildSettings

    folder.mkdir(parents=True, exist_ok=True)
    build(
        [write_corpus(folder / "corpus.txt")],
        vocabulary=tiny_vocabulary(),
        output=folder / "records",
        settings=BuildSettings(max_length=max_length, **settings),
    )
    return folder / "records"
