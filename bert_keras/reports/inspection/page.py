"""Writes the page of `bert-keras inspect`: attention, masked words and vectors of a word."""

import os
from collections.abc import Sequence
from typing import cast

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.models.encoder import BertEncoder
from bert_keras.reports.inspection.attention import attention_among, inputs_of
from bert_keras.reports.inspection.masked_words import masked_words
from bert_keras.reports.inspection.neighbours import neighbours
from bert_keras.reports.page import render
from bert_keras.storage import check_place, write_text
from bert_keras.text.tokenizer import TextTokenizer


def inspect_texts(
    pretrained: str | os.PathLike,
    texts: Sequence[str] = (),
    *,
    output: str | os.PathLike,
    word: str | None = None,
    sentences: str | os.PathLike | None = None,
    num_pieces: int = 10,
) -> None:
    """Writes the page of a checkpoint of any format.

    Args:
        pretrained: The folder of the checkpoint.
        texts: A text or a pair, whose attention and, with a masked-LM head, masked words are shown.
        output: The HTML file to write.
        word: A word whose vectors in the lines of `sentences` are compared by their cosines.
        sentences: A text file with the word in every line.
        num_pieces: The number of most probable tokens shown for a masked one.

    Raises:
        InputError: Nothing is asked for, or a text, word or file cannot be shown.
    """
    if not texts and word is None and sentences is None:
        raise InputError("there is nothing to show; give a text, or a word and a file of sentences")
    if (word is None) != (sentences is None):
        raise InputError("a word and a file of sentences go together; give both or neither")
    if num_pieces < 1:
        raise InputError(f"{num_pieces} pieces were asked for; expected at least 1")
    check_place(output)
    checkpoint = open_text_checkpoint(pretrained)
    card, tokenizer = checkpoint.card, cast(TextTokenizer, checkpoint.tokenizer)
    inputs = None
    if texts:  # refused before the weights are read
        inputs = inputs_of(
            texts, tokenizer, max_length=card.max_length, num_segments=card.config.num_segments
        )
    model = load_model(pretrained)
    encoder = cast(BertEncoder, getattr(model, "encoder", model))
    data: dict = {
        "model": card.model,
        "num_layers": card.config.num_layers,
        "num_heads": card.config.num_heads,
        "hidden_size": card.config.hidden_size,
        "num_pieces": len(tokenizer.vocabulary),
        "lowercase": tokenizer.lowercase,
    }
    if inputs is not None:
        data["attention"] = attention_among(encoder, inputs, tokenizer)
        data["masked"] = masked_words(model, inputs, tokenizer.vocabulary, num_pieces=num_pieces)
    if word is not None and sentences is not None:
        data["neighbours"] = neighbours(
            encoder, tokenizer, word=word, sentences=sentences, max_length=card.max_length
        )
    title = f"Inside {os.fspath(pretrained)}"
    write_text(output, render("inspection.html", title=title, data=data))
