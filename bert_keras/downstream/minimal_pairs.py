"""Scores minimal pairs of sentences by their pseudo-log-likelihood, without fine-tuning."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_keras.data.encoded import EncodedTexts
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
            # One paradigm of BLiMP has "syntax/semantics"; the others have "syntax_semantics".
            groups = {g: row[c].replace("/", "_") for g, c in GROUPS.items() if c in row}
            pairs.append(MinimalPair((good, bad), groups, location))
    return pairs


def pair_scores(pairs: Sequence[MinimalPair], differences: Sequence[float]) -> Scores:
    """Returns the mean accuracy of each group's paradigms; differences above 0 are correct."""
    is_correct = defaultdict(list)  # paradigm -> a boolean for each pair
    paradigms_of = {level: defaultdict(set) for level in GROUPS}  # level -> group -> paradigms
    for pair, difference in zip(pairs, differences, strict=True):
        is_correct[pair.groups["paradigm"]].append(difference > 0)
        for level, group in pair.groups.items():
            paradigms_of[level][group].add(pair.groups["paradigm"])
    accuracies = {paradigm: float(np.mean(values)) for paradigm, values in is_correct.items()}
    scores = {"accuracy": float(np.mean(list(accuracies.values())))}
    for level, groups in paradigms_of.items():
        for group, paradigms in sorted(groups.items()):
            mean = np.mean([accuracies[each] for each in sorted(paradigms)])
            scores[f"{level} {group}"] = float(mean)
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


def log_likelihoods(model: Pretrained, texts: Sequence[str]) -> list[float]:
    """Returns the pseudo-log-likelihood of each text (Salazar et al. 2020).

    It is the sum of the log-probabilities of the tokens, each of which is masked by itself and
    predicted from all other tokens. Special tokens are read but not scored.
    """
    is_masked_lm = isinstance(model, MaskedLMModel) and not model.config.is_causal
    if not is_masked_lm or model.tokenizer is None:
        raise InputError(f"the model is a {type(model).__name__}; expected a masked LM, not causal")
    max_length = model.stored_metadata(None).max_length
    ids = [tuple(each) for each in model.tokenizer.ids_batch(texts)]
    # Equal texts are scored once, because in different batches they could be rounded differently.
    sentences = list(dict.fromkeys(ids))
    num_specials = model.tokenizer.vocabulary.num_specials(1)
    longest = max(len(each) for each in sentences) + num_specials
    if longest > max_length:
        raise InputError(f"a text has {longest:,} tokens; the model reads at most {max_length:,}")
    rows, positions, sentence_of_row = [], [], []
    for index, sentence in enumerate(sentences):
        for position in range(1, len(sentence) + 1):
            rows.append(sentence)
            positions.append(position)
            sentence_of_row.append(index)
    encoded = _MaskedTokens(
        texts=(rows,),
        positions=np.array(positions, np.int32),
        vocabulary=model.tokenizer.vocabulary,
        max_length=max_length,
    )

    def forward(model, inputs, targets_B1):
        logits_B1V = model(inputs, training=False)["masked_lm"]
        return -MaskedLMLoss().call(targets_B1, logits_B1V)[:, 0], None

    batch_size = max(1, TOKENS_PER_BATCH // longest)
    likelihoods, _ = Predictor(model, forward=forward)(
        encoded, batch_size=batch_size, stage="score"
    )
    sums = np.bincount(sentence_of_row, weights=likelihoods, minlength=len(sentences)).tolist()
    sum_of_sentence = dict(zip(sentences, sums, strict=True))
    return [sum_of_sentence[each] for each in ids]
