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

MOST_PIECES = 128  # more tokens are unreadable; with BERT-base the page has 6 MB
STEPS = 65_535  # probabilities are quantized to this many steps, two bytes each


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
        texts: A text or a pair of texts. The page shows its attention and, if the model has a
            masked-LM head, predictions of its masked words.
        output: The HTML file to write.
        word: A word whose vectors in the lines of `sentences` are compared by their cosines.
        sentences: A text file with the word in every line.
        num_pieces: The number of most probable tokens shown for a masked token.

    Raises:
        InputError: There is nothing to show, or a text, word or file cannot be shown.
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
    if texts:  # invalid texts raise an error before the weights are read
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
    """Packs a text or a pair, which may contain [MASK], into int32 arrays [1, T]. Nothing is
    truncated.

    Raises:
        InputError: There are more than two texts, a text has no word, or the model cannot read a
            pair or a text of this length.
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
        `pieces`, the T tokens; `texts`, 0 or 1 for each token, the index of its text; `weights`,
        base64 of uint16 [L, N, T, T] in `STEPS`: the probability with which the row's token attends
        to the column's token.
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

    If the text has no [MASK], each of its tokens except [CLS] and [SEP] is masked separately.

    Returns:
        `places`, one entry for each masked token with its `position`, the `top` tokens with their
        probabilities and, if the text had no [MASK], its `own` token with its probability and rank
        (counted from 1). For a pair and a model with a next-sentence head, also the probability
        `is_next`. For a model without a masked-LM head only `missing`, the name of the model.
    """
    if "masked_lm" not in model.architecture.heads:
        return {"missing": model.architecture.name}
    call = cast(Callable[[dict], dict], model)  # faster than `predict`, which traces
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
