"""Writes the page of `bert-keras inspect`: attention and masked words of a text."""

import base64
import os
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from keras import ops

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.checkpoints.pretrained import build_model
from bert_keras.errors import InputError, counted
from bert_keras.files import StrPath, check_output, write_text
from bert_keras.kinds.kind import softmax
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.loading import MODELS
from bert_keras.models.pretrained import Pretrained
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.reports.page import render
from bert_keras.text.packing import ids_with_masks, pack
from bert_keras.text.vocab import Vocabulary

MAX_TOKENS = 128  # more tokens are unreadable; with BERT-base the page has 6 MB
STEPS = 65_535  # probabilities are quantized to this many steps, two bytes each


def inspect_texts(
    pretrained: StrPath, texts: Sequence[str], *, output: StrPath, num_tokens: int = 10
) -> None:
    """Writes a page with the attention of a text or a pair and the predictions of masked words.

    Args:
        texts: One or two texts, which may contain [MASK].
        num_tokens: The number of predicted tokens to show for each position.
    """
    check_output(output, suffix=".html")
    checkpoint = open_text_checkpoint(pretrained)
    metadata, vocabulary = checkpoint.metadata, checkpoint.vocabulary
    # Invalid texts raise an error before the weights are read.
    ids, limit = ids_with_masks(texts, checkpoint.tokenizer), min(MAX_TOKENS, metadata.max_length)
    space = limit - vocabulary.num_specials(len(texts))
    if len(texts) not in (1, 2) or not all(ids) or sum(map(len, ids)) > space:
        given = f"{counted(len(texts), 'text')} of {' and '.join(str(len(n)) for n in ids)} tokens"
        raise InputError(f"received {given}; expected words, 1 or 2 texts, {space} tokens at most")
    inputs = pack(*([each] for each in ids), vocabulary=vocabulary, max_length=limit)
    model_class = MODELS[metadata.model]
    model = build_model(model_class, checkpoint, metadata=metadata, source=pretrained)
    encoder, ids_T = cast(BertEncoder, getattr(model, "encoder", model)), inputs["input_ids"][0]
    attentions = encoder.states(inputs).attentions
    weights_LNTT = np.stack([ops.convert_to_numpy(layer)[0] for layer in attentions])
    steps = np.round(weights_LNTT * STEPS).astype("<u2")
    is_separator_T = ids_T == vocabulary.sep_id
    sizes = ("num_layers", "num_heads", "hidden_size")
    data: dict = {
        "model": metadata.model,
        "num_tokens": len(vocabulary),
        "lowercase": metadata.lowercase,
        **{name: getattr(metadata.config, name) for name in sizes},
        "attention": {
            "tokens": [vocabulary.tokens[token_id] for token_id in ids_T],
            "texts": (np.cumsum(is_separator_T) > is_separator_T).astype(int).tolist(),
            "cls": vocabulary.tokens[vocabulary.cls_id],
            "sep": vocabulary.tokens[vocabulary.sep_id],
            "steps": STEPS,
            "weights": base64.b64encode(steps.tobytes()).decode(),  # uint16 [L, N, T, T]
        },
        "masked": _predict_masked_words(model, inputs, vocabulary, num_tokens=num_tokens),
    }
    if isinstance(model, BertSentenceEncoder):
        data["embedding"] = {"summary": model.embedding.summary, "cosine": None}
        if len(texts) == 2:
            first, second = model.encode(texts)
            lengths = np.linalg.norm(first) * np.linalg.norm(second)
            data["embedding"]["cosine"] = float(first @ second / lengths)
    title = f"Inspection of {os.fspath(pretrained)}"
    write_text(output, render("inspection.html", title=title, data=data))


def _predict_masked_words(
    model: Pretrained, inputs: dict[str, np.ndarray], vocabulary: Vocabulary, *, num_tokens: int
) -> dict:
    """Predicts all masked tokens at once; without [MASK], masks and predicts each token."""
    if "masked_lm" not in model.kind.heads:
        return {"missing": model.kind.model}
    call = cast(Callable[[dict], dict], model)  # faster than `predict`, which traces
    ids_T = inputs["input_ids"][0]
    masked = np.flatnonzero(ids_T == vocabulary.mask_id)
    if len(masked):
        positions, rows = masked, {**inputs, "masked_lm_positions": masked[None].astype(np.int32)}
    else:
        positions = np.flatnonzero(~np.isin(ids_T, (vocabulary.cls_id, vocabulary.sep_id)))
        rows = {name: np.repeat(array, len(positions), axis=0) for name, array in inputs.items()}
        rows["input_ids"][np.arange(len(positions)), positions] = vocabulary.mask_id
        rows["masked_lm_positions"] = positions[:, None].astype(np.int32)
    # The logits of a causal model predict the following token.
    rows["masked_lm_positions"] -= int(model.config.is_causal)
    logits_RPV = ops.convert_to_numpy(call(rows)["masked_lm"])
    probabilities_PV = softmax(logits_RPV.reshape(len(positions), -1))
    predictions = []
    for position, probabilities_V in zip(positions, probabilities_PV, strict=True):
        order = np.argsort(-probabilities_V, kind="stable")
        shown = [*order[:num_tokens], ids_T[position]]
        *top, original = ([vocabulary.tokens[i], float(probabilities_V[i])] for i in shown)
        predictions.append({"position": int(position), "top": top})
        if not len(masked):
            rank = int(np.flatnonzero(order == ids_T[position])[0]) + 1  # counts from 1
            predictions[-1]["original"] = [*original, rank]
    words: dict = {"predictions": predictions}
    if "next_sentence" in model.kind.heads and (ids_T == vocabulary.sep_id).sum() > 1:
        pair = {**inputs, "masked_lm_positions": np.zeros((1, 1), np.int32)}
        logits = ops.convert_to_numpy(call(pair)["next_sentence"])
        words["is_next"] = float(softmax(logits)[0, 0])
    return words
