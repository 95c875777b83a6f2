"""Scores minimal pairs of sentences by their (pseudo-)log-likelihood, without fine-tuning."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from bert_keras.data.encoded import EncodedTexts
from bert_keras.data.objectives import next_tokens
from bert_keras.downstream.predictor import Predictor
from bert_keras.downstream.table import required_text, table_rows
from bert_keras.downstream.task import Scores
from bert_keras.errors import InputError
from bert_keras.files import StrPath
from bert_keras.models.pretrained import Pretrained
from bert_keras.models.pretrainer import MaskedLMModel
from bert_keras.reports.evaluation import Findings, example_cells
from bert_keras.reports.page import Section, Table
from bert_keras.training.losses import MaskedLMLoss

TOKENS_PER_BATCH = 4_096
SENTENCES = ("sentence_good", "sentence_bad")
# Level of a group of pairs -> its column in the files of BLiMP
GROUPS = {"field": "field", "phenomenon": "linguistics_term", "paradigm": "UID"}


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """An acceptable sentence and one that is not."""

    texts: tuple[str, str]  # the acceptable sentence is the first
    groups: Mapping[str, str]  # level -> name of the group; each pair has a "paradigm"
    location: str  # where it was read, as "FILE, line N"


def read_pairs(data: StrPath) -> list[MinimalPair]:
    """Reads a table or a folder of .jsonl files; a file without a column UID is one paradigm."""
    files = sorted(Path(data).glob("*.jsonl")) or [data]
    pairs = []
    for file in files:
        for location, row in table_rows(file, columns=SENTENCES):
            good, bad = (required_text(row, name, location=location) for name in SENTENCES)
            row = {"UID": Path(file).stem, **row}
            # One paradigm of BLiMP has "syntax/semantics" where the others have "syntax_semantics".
            groups = {g: row[c].replace("/", "_") for g, c in GROUPS.items() if c in row}
            pairs.append(MinimalPair((good, bad), groups, location))
    return pairs


def pair_scores(pairs: Sequence[MinimalPair], differences: Sequence[float]) -> Scores:
    """Returns the mean accuracy of each group's paradigms; differences above 0 are correct."""
    hits, members = defaultdict(list), {level: defaultdict(set) for level in GROUPS}
    for pair, difference in zip(pairs, differences, strict=True):
        hits[pair.groups["paradigm"]].append(difference > 0)
        for level, name in pair.groups.items():
            members[level][name].add(pair.groups["paradigm"])
    shares = {paradigm: float(np.mean(values)) for paradigm, values in hits.items()}
    scores = {"accuracy": float(np.mean(list(shares.values())))}
    for level, groups in members.items():
        for name, paradigms in sorted(groups.items()):
            scores[f"{level} {name}"] = float(np.mean([shares[each] for each in sorted(paradigms)]))
    return scores


def pair_findings(examples: Sequence[MinimalPair], predictions: Sequence[float]) -> Findings:
    """Returns the accuracy of each group, and the pairs with the wrong order."""
    tables: dict[str, list] = {}
    for name, value in pair_scores(examples, predictions).items():
        level, _, group = name.partition(" ")
        tables.setdefault(level, []).append([group, value])
    sections = [
        Section(heading=level.title(), table=Table([level, "accuracy"], rows))
        for level, rows in tables.items()
        if level != "accuracy"
    ]
    errors = [
        (-difference, [pair.groups["paradigm"], *example_cells(pair), f"{difference:.2f}"])
        for pair, difference in zip(examples, predictions, strict=True)
        if difference <= 0
    ]
    columns = ["paradigm", "example", "acceptable", "not acceptable", "difference"]
    return Findings(sections, columns, errors, "the smallest differences of log-likelihoods first")


@dataclass(frozen=True, kw_only=True)
class _MaskedTokens(EncodedTexts):
    """Sentences with one masked token each."""

    positions: np.ndarray  # int32 [N], the position of the masked token of each row

    def batch(self, rows: np.ndarray) -> tuple:
        (inputs,) = super().batch(rows)
        ids_BT, positions_B1 = inputs["input_ids"], self.positions[rows, None]
        targets_B1 = np.take_along_axis(ids_BT, positions_B1, axis=1)
        np.put_along_axis(ids_BT, positions_B1, self.vocabulary.mask_id, axis=1)
        return inputs | {"masked_lm_positions": positions_B1}, targets_B1


class _NextTokens(EncodedTexts):
    """Sentences in which each token is predicted from the tokens before it."""

    def batch(self, rows: np.ndarray) -> tuple:
        inputs, targets, weights = next_tokens(super().batch(rows)[0])
        is_text_BP = targets["masked_lm"] != self.vocabulary.sep_id
        return inputs, targets["masked_lm"], weights["masked_lm"] * is_text_BP


def log_likelihoods(model: Pretrained, texts: Sequence[str]) -> list[float]:
    """Returns the log-likelihood of each text under a language model.

    A masked-LM model gives the pseudo-log-likelihood of Salazar et al. 2020: it masks one token at
    a time, predicts it from all other tokens, and sums the log-probabilities. A causal model
    predicts each token from the tokens before it. Special tokens are read but not scored.
    """
    if not isinstance(model, MaskedLMModel) or model.tokenizer is None:
        raise InputError(f"the model is a {type(model).__name__}; expected one with masked_lm")
    max_length = model.stored_metadata(None).max_length
    settings: dict[str, Any] = {"vocabulary": model.tokenizer.vocabulary, "max_length": max_length}
    ids = list(map(tuple, model.tokenizer.ids_batch(texts)))
    # Equal texts share a row, because in different batches they could be rounded differently.
    sentences = list(dict.fromkeys(ids))
    encoded, sentence_of_row = _NextTokens(texts=(sentences,), **settings), range(len(sentences))
    longest = int(encoded.full_lengths.max(initial=1))
    if longest > max_length:
        raise InputError(f"a text has {longest:,} tokens; the model reads at most {max_length:,}")
    if not model.config.is_causal:
        positions = [position for each in sentences for position in range(1, len(each) + 1)]
        masked = ([each for each in sentences for _ in each],)
        sentence_of_row = np.repeat(sentence_of_row, list(map(len, sentences)))
        encoded = _MaskedTokens(texts=masked, positions=np.array(positions, np.int32), **settings)
    size = max(1, TOKENS_PER_BATCH // longest)

    def forward(model, inputs, targets_BP, weights_BP=1.0):
        logits_BPV = model(inputs, training=False)["masked_lm"]
        losses_BP = MaskedLMLoss().call(targets_BP, logits_BPV)
        return -ops.sum(losses_BP * weights_BP, axis=1), None

    sums, _ = Predictor(model, forward=forward)(encoded, batch_size=size, stage="score")
    totals = np.bincount(sentence_of_row, weights=sums, minlength=len(sentences)).tolist()
    total_of = dict(zip(sentences, totals, strict=True))
    return [total_of[each] for each in ids]
