"""A model folder and texts come in; one HTML page that needs nothing else goes out."""

import html
import json
import os
import re
from collections.abc import Sequence
from importlib.resources import files

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.loading import load_model
from bert_keras.reports.inspection.attention import attention_among, inputs_of
from bert_keras.reports.inspection.masked_words import masked_words
from bert_keras.reports.inspection.neighbours import neighbours
from bert_keras.reports.page import STYLE
from bert_keras.storage import check_place, write_text

SCRIPTS = ("page.js", "attention.js", "masked_words.js", "neighbours.js")


def inspect_texts(
    pretrained: str | os.PathLike,
    texts: Sequence[str] = (),
    *,
    output: str | os.PathLike,
    word: str | None = None,
    sentences: str | os.PathLike | None = None,
    num_pieces: int = 10,
) -> None:
    """Write the page `output` of a checkpoint of any format: of one text or a pair the attention
    and, where there is a masked-LM head, the `num_pieces` most probable pieces; of a `word` the
    cosines between its vectors in the lines of the file `sentences`.

    Raises InputError where nothing is asked for, and what the parts of this package raise.
    """
    if not texts and word is None and sentences is None:
        raise InputError("there is nothing to show; give a text, or a word and a file of sentences")
    if (word is None) != (sentences is None):
        raise InputError("a word and a file of sentences go together; give both or neither")
    if num_pieces < 1:
        raise InputError(f"{num_pieces} pieces were asked for; expected at least 1")
    check_place(output)
    checkpoint = open_text_checkpoint(pretrained)
    card, tokenizer = checkpoint.card, checkpoint.tokenizer
    read = {"max_length": card.max_length}
    if texts:  # refused before the weights are read
        inputs = inputs_of(texts, tokenizer, num_segments=card.config.num_segments, **read)
    model = load_model(pretrained)
    encoder = model if isinstance(model, BertEncoder) else model.encoder
    data: dict = {
        "model": card.model,
        "num_layers": card.config.num_layers,
        "num_heads": card.config.num_heads,
        "hidden_size": card.config.hidden_size,
        "num_pieces": len(tokenizer.vocabulary),
        "lowercase": tokenizer.lowercase,
    }
    if texts:
        data["attention"] = attention_among(encoder, inputs, tokenizer)
        data["masked"] = masked_words(model, inputs, tokenizer.vocabulary, num_pieces=num_pieces)
    if word is not None:
        data["neighbours"] = neighbours(encoder, tokenizer, word=word, sentences=sentences, **read)
    write_text(output, _page(f"Inside {os.fspath(pretrained)}", data))


def _page(title: str, data: dict) -> str:
    parts = {
        "title": html.escape(title),
        "style": STYLE,
        "script": "\n".join(map(_source, SCRIPTS)),
        "data": json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _source("page.html"))


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
