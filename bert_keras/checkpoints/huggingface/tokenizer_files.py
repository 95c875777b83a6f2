"""Writes the tokenizer files of a Hugging Face folder, which tokenizer.py describes and reads."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from bert_keras.checkpoints.foreign import write_json
from bert_keras.checkpoints.huggingface.tokenizer import (
    SETTINGS,
    SPECIAL_ROLES,
    TOKENIZER,
    TRANSFORMERS_WORD_CHARACTERS,
    VOCABULARY,
)
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.text.fast_tokenizer import write_vocabulary
from bert_keras.text.tokenizer import MAX_WORD_CHARACTERS, normalizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDPIECE_NOTE = (
    "transformers' tokenizer reads special tokens such as [MASK] in a text as tokens; it also "
    "differs from BERT's for some hundred rare characters and a capital sigma at the end of a word"
)
RULES_NOTE = (
    "transformers' tokenizer reads special tokens in a text as tokens, bert-keras reads them as "
    "characters"
)


def write_tokenizer(
    metadata: ModelMetadata, vocabulary: Vocabulary, folder: Path
) -> tuple[str, ...]:
    """Writes the tokenizer files.

    Returns:
        One sentence for each difference between our tokenizer and that of transformers.
    """
    settings = {
        "model_max_length": metadata.max_length,
        **dict(zip(SPECIAL_ROLES, vocabulary.specials.tokens, strict=True)),
        "model_input_names": ["input_ids", "attention_mask"],
    }
    if metadata.config.num_segments > 1 and vocabulary.specials.second_segment:
        settings["model_input_names"].insert(1, "token_type_ids")
    if vocabulary.rules:
        write_vocabulary(vocabulary, folder)
        write_json(folder / SETTINGS, settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
        return (RULES_NOTE,)
    vocabulary.save(folder / VOCABULARY)
    tokenizer = Tokenizer(
        WordPiece(vocabulary.ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS)
    )
    tokenizer.normalizer = normalizer(lowercase=metadata.lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary.cls_id), ("[SEP]", vocabulary.sep_id)],
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    tokenizer.save(str(folder / TOKENIZER))
    bert = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": metadata.lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
    }
    write_json(folder / SETTINGS, bert | settings)
    return (
        f"transformers 5 maps words of more than {TRANSFORMERS_WORD_CHARACTERS} characters to "
        f"[UNK], bert-keras those of more than {MAX_WORD_CHARACTERS}",
        WORDPIECE_NOTE,
    )
