"""Defines the vocabulary: the tokens of a model, their ids, and its five special tokens."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, islice

from bert_keras.errors import InputError, quoted
from bert_keras.files import StrPath, text_lines, write_text

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_MARK = "▁"  # the space in a token of SentencePiece


@dataclass(frozen=True)
class Specials:
    """The special tokens, and how two texts are packed with them."""

    tokens: tuple[str, ...] = SPECIAL_TOKENS  # the special tokens, in the order of SPECIAL_TOKENS
    num_separators: int = 1  # separator tokens between two texts
    second_segment: int = 1  # segment id of the second text
    # First character of a token that begins a word after a space. It is "" for WordPiece, where
    # tokens that continue a word begin with "##" instead.
    word_start: str = ""
    unused: tuple[str, ...] = ()  # other tokens that texts cannot contain


BERT_SPECIALS = Specials()
# Of MPNet, the only WordPiece vocabulary with other special tokens
MPNET_SPECIALS = Specials(
    ("<pad>", "[UNK]", "<s>", "</s>", "<mask>"), num_separators=2, second_segment=0
)
# Other white space may be a token: Google's Chinese vocabulary contains U+2028.
_ASCII_SPACES = frozenset(string.whitespace)
_HANGUL_SYLLABLE = re.compile("[가-힣]")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer, in the order of their ids.

    Attributes:
        tokens: The tokens; the index of a token is its id.
        specials: The special tokens, and how two texts are packed with them.
        rules: The text of the tokenizer.json that splits texts; "" for WordPiece.
        shortens_first: How pairs are truncated; see `packing.truncated_lengths`.
        pad_id: The id of the padding token; `unk_id`, `cls_id`, `sep_id` and `mask_id` correspond.

    Raises:
        InputError: A special token is missing, a token is empty or occurs twice, a token of
            WordPiece contains white space, or tokens of SentencePiece come without rules.

    Example:

    ```python
    vocabulary = Vocabulary.from_file("vocab.txt")
    mask_id = vocabulary.ids["[MASK]"]
    ```
    """

    tokens: tuple[str, ...] = field(repr=False)
    specials: Specials = BERT_SPECIALS
    rules: str = field(default="", repr=False)
    shortens_first: bool = field(default=False, compare=False)  # not a property of the tokens
    pad_id: int = field(init=False, repr=False, compare=False)
    unk_id: int = field(init=False, repr=False, compare=False)
    cls_id: int = field(init=False, repr=False, compare=False)
    sep_id: int = field(init=False, repr=False, compare=False)
    mask_id: int = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "tokens", tuple(self.tokens))
        for line, token in enumerate(self.tokens, start=1):
            has_space = not self.rules and not _ASCII_SPACES.isdisjoint(token)
            if not token or has_space or self.ids[token] + 1 != line:
                raise InputError(
                    f"line {line} of the vocabulary, {quoted(token)}, is blank, contains white "
                    "space or is repeated later; write only a token on this line, or [unusedN]"
                )
        marked = [token for token in self.tokens if token.startswith(WORD_MARK) and token[1:]]
        is_wordpiece = any(token.startswith("##") for token in self.tokens)
        if marked and not self.rules and not is_wordpiece:  # as the vocab.txt of monologg/kobert
            raise InputError(
                f"the vocabulary has tokens of SentencePiece, such as {marked[:1]}; add the "
                "spiece.model or tokenizer.json of the checkpoint"
            )
        specials = self.specials.tokens
        if missing := [token for token in specials if token not in self.ids]:
            raise InputError(f"the vocabulary lacks {' '.join(missing)}; it needs {specials}")
        for name, token in zip(("pad", "unk", "cls", "sep", "mask"), specials, strict=True):
            object.__setattr__(self, f"{name}_id", self.ids[token])

    @classmethod
    def from_file(cls, path: StrPath) -> "Vocabulary":
        """Reads a `vocab.txt` in UTF-8; the id of a token is its line number, counted from 0."""
        return cls.of_wordpiece(tuple(text_lines(path)))

    @classmethod
    def of_wordpiece(cls, tokens: tuple[str, ...]) -> "Vocabulary":
        """Returns the vocabulary of WordPiece tokens, with the special tokens among them."""
        is_mpnet = {*MPNET_SPECIALS.tokens} <= {*tokens} and "[CLS]" not in tokens
        return cls(tokens, MPNET_SPECIALS if is_mpnet else BERT_SPECIALS)

    def save(self, path: StrPath) -> None:
        """Writes a `vocab.txt` that `from_file` reads."""
        write_text(path, self.lines)

    @property
    def lines(self) -> str:
        """The content of the file that `from_file` reads."""
        return "".join(f"{token}\n" for token in self.tokens)

    def padded(self, size: int) -> "Vocabulary":
        """Appends tokens [unusedN] to the tokens and the rules until there are `size` tokens."""
        new_tokens = (token for n in count() if (token := f"[unused{n}]") not in self.ids)
        added, rules = list(islice(new_tokens, max(0, size - len(self)))), self.rules
        if rules:
            from tokenizers import Tokenizer  # slow to import

            tokenizer = Tokenizer.from_str(rules)
            tokenizer.add_special_tokens(added)  # text never becomes a special token
            rules = tokenizer.to_str()
        return replace(self, tokens=(*self.tokens, *added), rules=rules)

    def continues(self, token: str) -> bool:
        """Returns whether a token continues the word of the preceding token."""
        start = self.specials.word_start
        # In ModernBERT, a run of spaces is a token that was added to the byte-level BPE.
        return not token.startswith((start, " ")) if start else token.startswith("##")

    def num_specials(self, num_texts: int) -> int:
        """Returns the number of special tokens around and between the texts of a sequence."""
        return 2 + self.specials.num_separators * (num_texts - 1)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: token_id for token_id, token in enumerate(self.tokens)}


def is_unused(token: str) -> bool:
    """Returns whether a token is one of [unused0], [unused1], ..., which no text contains."""
    return token.startswith("[unused") and token.endswith("]")


def in_order_of_ids(ids: Mapping[str, int], *, file: str) -> tuple[str, ...]:
    """Returns the tokens sorted by id; raises InputError unless the ids are 0 to N-1, each once."""
    if sorted(map(str, ids.values())) != sorted(map(str, range(len(ids)))):
        raise InputError(f"{file}: the ids are not the numbers from 0 to {len(ids) - 1}, each once")
    return tuple(sorted(ids, key=ids.__getitem__))


def seems_lowercase(vocabulary: Vocabulary | None) -> bool:
    """Guesses from a vocabulary whether its tokenizer lower-cases text; for None, returns True."""
    tokens = () if vocabulary is None else vocabulary.tokens
    # Lower-casing also decomposes Hangul. Tokens in brackets, such as [MASK], are not considered.
    return all(
        token == token.lower() or (token[0], token[-1]) in {("[", "]"), ("<", ">")}
        for token in tokens
    ) and not any(_HANGUL_SYLLABLE.search(token) for token in tokens)
