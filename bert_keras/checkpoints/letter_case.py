"""A vocabulary in, whether its texts were lowercased out: for checkpoints that do not say."""

from bert_keras.text.vocab import Vocabulary


def seems_lowercase(vocabulary: Vocabulary | None) -> bool:
    """True where no piece has a capital, or nothing is known: uncased is the usual BERT.

    Pieces in brackets, such as [MASK] and the <S> of Google's Chinese one, are not of a text.
    """
    pieces = () if vocabulary is None else vocabulary.pieces
    return all(piece == piece.lower() for piece in pieces if not _in_brackets(piece))


def _in_brackets(piece: str) -> bool:
    return len(piece) > 1 and (piece[0], piece[-1]) in {("[", "]"), ("<", ">")}
