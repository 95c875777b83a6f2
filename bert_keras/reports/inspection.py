"""Writes the page of `bert-keras inspect`: attention, masked words and vectors of a word."""

import base64
import math
import os
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from keras import ops

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.errors import InputError
from bert_keras.models import load_model
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrained import Pretrained
from bert_keras.reports.neighbours import neighbours
from bert_keras.reports.page import render
from bert_keras.storage import check_place, write_text
from bert_keras.tasks.task import softmax
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer, ids_with_masks
from bert_keras.text.vocab import Vocabulary

MOST_PIECES = 128  # of a map whose tokens can be read; of BERT-base a page of 6 MB
STEPS = 65_535  # the page holds probabilities in this many steps, two bytes each


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
    card, tokenizer = checkpoint.card, checkpoint.tokenizer
    inputs = None
    if texts:  # refused before the weights are read
        inputs = _inputs(
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
        vocabulary = tokenizer.vocabulary
        data["attention"] = _attention(encoder, inputs, vocabulary)
        data["masked"] = _masked_words(model, inputs, vocabulary, num_pieces=num_pieces)
    if word is not None and sentences is not None:
        data["neighbours"] = neighbours(
            encoder, tokenizer, word=word, sentences=sentences, max_length=card.max_length
        )
    title = f"Inside {os.fspath(pretrained)}"
    write_text(output, render("inspection.html", title=title, data=data))


def _inputs(
    texts: Sequence[str], tokenizer: TextTokenizer, *, max_length: int, num_segments: int
) -> dict[str, np.ndarray]:
    """Packs a text or a pair, in which [MASK] may be written, into int32 arrays [1, T].

    Raises InputError for more than two texts, one without a word, or a pair or length that the
    model cannot read: nothing is truncated.
    """
    if len(texts) > 2:
        raise InputError(f"{len(texts)} texts came; expected one, or the two of a pair")
    vocabulary, ids = tokenizer.vocabulary, ids_with_masks(texts, tokenizer)
    for text, pieces in zip(texts, ids, strict=True):
        if not pieces:
            raise InputError(f"the text {text!r} holds no word; expected at least one")
    limit = min(MOST_PIECES, max_length)
    length = sum(map(len, ids)) + vocabulary.num_specials(len(texts))
    if length > limit:
        raise InputError(
            f"the text has {length} pieces, specials counted; expected at most {limit}: shorten it"
        )
    inputs = pack(*([each] for each in ids), vocabulary=vocabulary, max_length=limit)
    if inputs["segment_ids"].max() >= (num_segments or math.inf):
        raise InputError("a pair came for a model of one segment; give one text")
    return inputs


def _attention(encoder: BertEncoder, inputs: dict[str, np.ndarray], vocabulary: Vocabulary) -> dict:
    """Computes the attention probabilities of every layer and head.

    Returns:
        `pieces`, the T tokens; `texts`, 0 or 1 for each, the text that it is of; `weights`, base64
        of uint16 [L, N, T, T] in `STEPS`: how much the row's token attends to the column's.
    """
    attentions = encoder.states(inputs).attentions
    weights_LNTT = np.stack([ops.convert_to_numpy(layer)[0] for layer in attentions])
    steps = np.round(weights_LNTT * STEPS).astype("<u2")
    ids_T = inputs["input_ids"][0]
    is_second_T = np.cumsum(ids_T == vocabulary.sep_id) - (ids_T == vocabulary.sep_id) > 0
    return {
        "pieces": [vocabulary.pieces[number] for number in ids_T],
        "texts": is_second_T.astype(int).tolist(),
        "cls": vocabulary.pieces[vocabulary.cls_id],
        "sep": vocabulary.pieces[vocabulary.sep_id],
        "steps": STEPS,
        "weights": base64.b64encode(steps.tobytes()).decode(),
    }


def _masked_words(
    model: Pretrained, inputs: dict[str, np.ndarray], vocabulary: Vocabulary, *, num_pieces: int
) -> dict:
    """Predicts the masked tokens of a text, all at once.

    A text without [MASK] has every token but [CLS] and [SEP] masked by itself.

    Returns:
        `places`, each with its `position`, the `top` tokens with their probabilities and, where it
        was not [MASK], its `own` token with probability and rank from 1; for a pair and a
        next-sentence head also the probability `is_next`. For a model without a masked-LM head
        only `missing`, the name of the model.
    """
    if "masked_lm" not in model.architecture.heads:
        return {"missing": model.architecture.name}
    call = cast(Callable[[dict], dict], model)  # `predict` traces for longer than this takes
    ids_T = inputs["input_ids"][0]
    masked = np.flatnonzero(ids_T == vocabulary.mask_id)
    if len(masked):
        places, rows = masked, {**inputs, "masked_lm_positions": masked[None].astype(np.int32)}
    else:
        places = np.flatnonzero(~np.isin(ids_T, (vocabulary.cls_id, vocabulary.sep_id)))
        rows = {name: np.repeat(array, len(places), axis=0) for name, array in inputs.items()}
        rows["input_ids"][np.arange(len(places)), places] = vocabulary.mask_id
        rows["masked_lm_positions"] = places[:, None].astype(np.int32)
    logits_RPV = ops.convert_to_numpy(call(rows)["masked_lm"])
    shares_PV = softmax(logits_RPV.reshape(len(places), -1))
    words: dict = {"places": []}
    for place, shares_V in zip(places, shares_PV, strict=True):
        order = np.argsort(-shares_V, kind="stable")
        top = [[vocabulary.pieces[each], float(shares_V[each])] for each in order[:num_pieces]]
        words["places"].append({"position": int(place), "top": top})
        if not len(masked):
            own = ids_T[place]
            rank = int(np.flatnonzero(order == own)[0]) + 1
            words["places"][-1]["own"] = [vocabulary.pieces[own], float(shares_V[own]), rank]
    if "next_sentence" in model.architecture.heads and (ids_T == vocabulary.sep_id).sum() > 1:
        pair = {**inputs, "masked_lm_positions": np.zeros((1, 1), np.int32)}
        logits = ops.convert_to_numpy(call(pair)["next_sentence"])
        words["is_next"] = float(softmax(logits)[0, 0])
    return words
