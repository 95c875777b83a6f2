"""Raw text, or pairs of it, comes in; padded ids, mask and segments go out, inside a TF graph."""

import os

import tensorflow as tf
import tensorflow_text as tf_text

from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS
from bert_keras.text.vocab import Vocabulary

_MAX_BYTES_PER_CHARACTER = 4  # of UTF-8

# What BertNormalizer drops: controls but tab and line ends, formats, private use, U+FFFD.
_DROPPED = r"[\x{0}-\x{8}\x{B}\x{C}\x{E}-\x{1F}\x{7F}-\x{9F}\x{FFFD}\p{Cf}\p{Co}]"
_SPACES = r"[\t\n\r\p{Z}]+"
# Punctuation and CJK, each character a word. `tokenizers` starts Extension E at U+2B920, where
# Google's ranges say U+2B820; the offline tokenizer is what the model was trained with.
_ALONE = (
    r"[!-/:-@\[-`{-~\p{P}"
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)


class TextToInputs(tf.Module):
    """`bert_keras.text` (WordPieceTokenizer, then `pack`) as TensorFlow ops, equal id for id.

    `vocabulary_file`, as `Vocabulary.save` writes it, becomes an asset of a SavedModel.
    `max_length` counts pieces, specials included, and must leave room for one more.

    What still differs: 684 of Unicode's 1.1 million code points (149 when cased), such as U+2E43,
    U+10570 or U+166D. They were added or given another category since Unicode 8 (2015), and this
    TensorFlow's tables are newer than those in `tokenizers`. Bytes that are no UTF-8 are dropped.
    """

    def __init__(self, vocabulary_file: str | os.PathLike, *, lowercase: bool, max_length: int):
        super().__init__()
        self._vocabulary = Vocabulary.from_file(vocabulary_file)
        self._lowercase = lowercase
        self._max_length = max_length
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                os.fspath(vocabulary_file),
                key_dtype=tf.string,
                key_index=tf.lookup.TextFileIndex.WHOLE_LINE,
                value_dtype=tf.int64,
                value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=self._vocabulary.unk_id,
        )
        self._wordpiece = tf_text.WordpieceTokenizer(
            self._table,
            max_bytes_per_word=MAX_WORD_CHARACTERS * _MAX_BYTES_PER_CHARACTER,
            token_out_type=tf.int32,
        )

    def __call__(self, text: tf.Tensor, text_pair: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """string [B], or two of them, to `input_ids`, `input_mask`, `segment_ids`, int32 [B,T].

        T is the longest sequence of the batch, at most `max_length`; the ends are cut, a piece at
        a time from the longer text, from the second where they are equally long.
        """
        texts = tf.stack([text] if text_pair is None else [text, text_pair])
        pieces = self.pieces(tf.reshape(texts, [-1]))
        starts = tf.unstack(tf.reshape(pieces.row_starts(), tf.shape(texts)))
        lengths = tf.unstack(tf.reshape(pieces.row_lengths(), tf.shape(texts)))
        lengths = _kept_lengths(*lengths, limit=self._max_length - 1 - len(lengths))
        column = tf.range(1 + tf.reduce_max(tf.add_n(lengths) + len(lengths)))[None]
        input_ids = tf.where(column > 0, self._vocabulary.pad_id, self._vocabulary.cls_id)
        values = tf.concat([pieces.values, [0]], axis=0)  # never empty
        end, ends = tf.zeros_like(lengths[0])[:, None], []
        for first, length in zip(starts, lengths, strict=True):
            start, end = end, end + length[:, None] + 1
            inside = (column > start) & (column < end)
            place = tf.where(inside, first[:, None] + column - start - 1, 0)
            input_ids = tf.where(inside, tf.gather(values, place), input_ids)
            input_ids = tf.where(column == end, self._vocabulary.sep_id, input_ids)
            ends.append(end)
        return {
            "input_ids": input_ids,
            "input_mask": tf.cast(column <= end, tf.int32),
            "segment_ids": tf.cast((column > ends[0]) & (column <= end), tf.int32),
        }

    def pieces(self, text: tf.Tensor) -> tf.RaggedTensor:
        """string [B] to the ids of its pieces, int32 [B,(pieces)]."""
        words = self.words(text)
        too_long = tf.strings.length(words.values, unit="UTF8_CHAR") > MAX_WORD_CHARACTERS
        pieces = self._wordpiece.tokenize(tf.where(too_long, "[UNK]", words.values))
        return tf.RaggedTensor.from_row_splits(
            pieces.values, tf.gather(pieces.row_splits, words.row_splits), validate=False
        )

    def words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """string [B] to normalised words, string [B,(words)]."""
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
        text = tf.strings.regex_replace(text, _DROPPED, "")
        if self._lowercase:
            text = _lower_without_accents(text)
        return tf_text.regex_split(text, f"{_SPACES}|{_ALONE}", _ALONE)


def _lower_without_accents(text: tf.Tensor) -> tf.Tensor:
    """ASCII letters first: the other way of lowering, ICU's, would write I as ı in Turkey."""
    text = tf.strings.regex_replace(tf_text.normalize_utf8(text, "NFD"), r"\p{Mn}", "")
    return tf.strings.lower(tf.strings.lower(text), encoding="utf-8")


def _kept_lengths(length, length_pair=None, *, limit: int) -> list[tf.Tensor]:
    """int64 [B] each; a pair as `text.packing.truncated_lengths` cuts it."""
    if length_pair is None:
        return [tf.minimum(length, limit)]
    kept = tf.minimum(length, tf.maximum(limit - length_pair, (limit + 1) // 2))
    return [kept, tf.minimum(length_pair, limit - kept)]
