"""Question answering: the span of a passage that answers a question (Devlin et al. 2018, 4.2)."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import index as as_int
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError, check_choice, check_least, quoted
from bert_keras.fields import setting
from bert_keras.kinds.kind import Kind, softmax
from bert_keras.kinds.windows import (
    MAX_SPECIALS,
    Answer,
    Question,
    QuestionWindows,
    find_max_context,
    make_windows,
)
from bert_keras.text.columns import as_list, check_num_columns, checked_columns

if TYPE_CHECKING:
    from markupsafe import Markup

MARGIN = 300  # characters that a report shows before and after the answers in a context
ANSWER, NONE = "answer", "none"


@dataclass(frozen=True, kw_only=True)
class SpanSettings:
    """How questions are divided into windows and answered.

    The defaults are the same as in google-research/bert run_squad.py.
    """

    version: str = setting("1.1", 'of SQuAD: "1.1", or "2.0" with unanswerable questions')
    stride: int = setting(128, "tokens between the starts of two windows of a context")
    max_question_length: int = setting(64, "maximum number of tokens of a question, or it is cut")
    max_answer_length: int = setting(30, "maximum number of tokens of an answer")
    num_best: int = setting(20, "maximum number of candidates of a question")
    null_threshold: float = setting(0.0, '2.0: odds above which there is "no answer"; set on dev')

    def __post_init__(self):
        check_choice(self, "version", ("1.1", "2.0"))
        check_least(self, 1, "stride", "max_question_length", "max_answer_length")
        # The candidates of version 2.0 contain "no answer", and its threshold needs an answer too.
        check_least(self, 2 if self.allows_no_answer else 1, "num_best")

    @property
    def allows_no_answer(self) -> bool:
        """Whether "no answer" is a valid prediction."""
        return self.version == "2.0"

    @classmethod
    def of_model(cls, metadata: ModelMetadata) -> "SpanSettings":
        """Returns the settings that a model was fine-tuned with, by default for SQuAD 1.1."""
        names = {field.name for field in fields(cls)}
        settings = cls(**{n: value for n, value in metadata.task.items() if n in names})
        settings.check_max_length(metadata.max_length)
        return settings

    def check_max_length(self, max_length: int) -> None:
        """Raises InputError if rows of `max_length` tokens leave no room for a passage."""
        least = self.max_question_length + MAX_SPECIALS + 1
        if max_length < least:
            raise InputError(f"max_length is {max_length}; expected at least {least}")

    def windows(
        self, questions: Sequence[Question], tokenizer: Any, *, max_length: int
    ) -> QuestionWindows:
        """Returns the windows of questions; a window has at most `max_length` tokens."""
        options = {"stride": self.stride, "max_question_length": self.max_question_length}
        return make_windows(questions, tokenizer, max_length=max_length, **options)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry of the n-best list of a question."""

    text: str  # "" for "no answer"
    probability: float  # softmax of the scores over the n-best list
    start_logit: float
    end_logit: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted answer of a question."""

    text: str  # "" for "no answer"
    # The score of "no answer" minus the score of the best answer; None in SQuAD 1.1.
    null_odds: float | None = None
    candidates: tuple[Candidate, ...] = ()  # the n-best list, best first
    start: int = -1  # index of the first character in the context; -1 for "no answer"
    score: float = float(np.finfo(np.float32).min)  # the best span's start logit + end logit
    no_answer_score: float = 0.0  # the lowest score that a window gives "no answer"


class TokenSpan(NamedTuple):
    """A span of tokens of a context, and its logits."""

    first: int  # index in `QuestionWindows.tokens`
    last: int  # index, inclusive
    start_logit: float
    end_logit: float


def predict_answers(
    contexts: Sequence[str],
    windows: QuestionWindows,
    outputs: Sequence[dict[str, np.ndarray]],
    settings: SpanSettings,
) -> list[Prediction]:
    """Returns the best answer of each question (BERT paper, sections 4.2 and 4.3).

    The score of a span is the start logit of its first token plus the end logit of its last token.
    The score of "no answer" is the sum of both logits of [CLS], in the window of the question where
    it is lowest. In SQuAD 2.0, the prediction is "" if this score exceeds the best score of a span
    by more than `settings.null_threshold`.

    Args:
        contexts: The context of each question.
        windows: The windows of all questions.
        outputs: The logits "start" and "end" of each window, float [T].
        settings: How to choose answers.
    """
    predictions = []
    for index, context in enumerate(contexts):
        logits_by_text: dict[str, tuple[float, float]] = {}  # of the best span with each text
        start, text = -1, ""
        for span in find_best_spans(windows, index, outputs, settings, context=context):
            first_character = int(windows.offsets[span.first, 0])
            end_character = int(windows.offsets[span.last, 1])
            span_text = with_marks(context, first_character, end_character)
            if not logits_by_text:
                start, text = first_character, span_text
            logits_by_text.setdefault(span_text, (span.start_logit, span.end_logit))
            if len(logits_by_text) == settings.num_best:
                break
        n_best = list(logits_by_text.items())
        score = sum(n_best[0][1]) if n_best else float(np.finfo(np.float32).min)
        window_outputs = [outputs[row] for row in windows.of_question(index)]
        cls_logits = [(float(each["start"][0]), float(each["end"][0])) for each in window_outputs]
        no_answer = min(cls_logits, key=sum)
        null_odds = None
        if settings.allows_no_answer:
            null_odds = sum(no_answer) - score
            if null_odds > settings.null_threshold:
                start, text = -1, ""
            n_best = sorted([*n_best, ("", no_answer)], key=lambda item: sum(item[1]), reverse=True)
            if n_best[-1][1] is not no_answer:  # "no answer" is listed even if it is the worst
                n_best = n_best[: settings.num_best]
        scores = np.array([sum(logits) for _, logits in n_best])
        probabilities = softmax(scores).tolist() if n_best else []  # a context may have no tokens
        candidates = tuple(
            Candidate(candidate_text, probability, *logits)
            for (candidate_text, logits), probability in zip(n_best, probabilities, strict=True)
        )
        predictions.append(Prediction(text, null_odds, candidates, start, score, sum(no_answer)))
    return predictions


def find_best_spans(
    windows: QuestionWindows,
    question: int,
    outputs: Sequence[dict[str, np.ndarray]],
    settings: SpanSettings,
    *,
    context: str,
) -> Iterator[TokenSpan]:
    """Yields the valid spans of a question, best first.

    A valid span has at most `settings.max_answer_length` tokens and starts in the window that has
    the maximum context of its first token. Its first and its last token are not white space.

    Args:
        windows: The windows of all questions.
        question: The index of the question.
        outputs: The logits "start" and "end" of each window, float [T].
        settings: How to choose answers.
        context: The context of the question.
    """
    max_answer_length = settings.max_answer_length
    is_visible = [not character.isspace() for character in context]
    num_visible_before = np.cumsum([0, *is_visible])
    rows = windows.of_question(question)
    passage_starts = windows.starts_N2[rows.start : rows.stop, 1]
    question_lengths, passage_lengths = windows.lengths_N2[rows.start : rows.stop].T
    has_max_context = find_max_context(passage_starts - passage_starts[0], passage_lengths)
    before_passage = question_lengths + windows.vocabulary.num_specials(2) - 1
    # For the tokens of all windows: their indices, their logits, and the score of the spans of each
    # possible length that begin with them
    tokens, starts, ends, scores = [], [], [], []
    for index, row in enumerate(rows):
        length = passage_lengths[index]
        passage = slice(before_passage[index], before_passage[index] + length)
        start_T = outputs[row]["start"][passage].astype(np.float64)
        end_T = outputs[row]["end"][passage].astype(np.float64)
        offsets_T2 = windows.offsets[passage_starts[index] :][:length]
        is_blank_T = np.diff(num_visible_before[offsets_T2], axis=1)[:, 0] == 0
        start_T[is_blank_T | ~has_max_context[index]] = -np.inf
        end_T[is_blank_T] = -np.inf
        padded_end = np.concatenate([end_T, np.full(max_answer_length, -np.inf)])
        following_ends = np.lib.stride_tricks.sliding_window_view(padded_end, max_answer_length)
        tokens.append(passage_starts[index] + np.arange(length))
        starts.append(start_T)
        ends.append(end_T)
        scores.append((start_T[:, None] + following_ends[:length]).ravel())
    tokens, starts, ends, scores = map(np.concatenate, (tokens, starts, ends, scores))
    for index in np.argsort(-scores, kind="stable"):
        if scores[index] == -np.inf:
            return
        first, num_following = divmod(int(index), max_answer_length)
        last = first + num_following
        yield TokenSpan(tokens[first], tokens[last], float(starts[first]), float(ends[last]))


def with_marks(context: str, start: int, end: int) -> str:
    """Returns the characters [start, end) and the combining marks after them."""
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return context[start:end]


class Span(Kind):
    """Questions and passages; a label is a pair (start, text), or a dict as in SQuAD."""

    model = "BertQuestionAnswering"
    heads = ("span",)
    transformers_class = "ForQuestionAnswering"
    weight_names: ClassVar = {"span/dense": "qa_outputs"}
    head_weight = "span/dense/kernel"
    google_weights: ClassVar = {
        "span/dense/kernel": "cls/squad/output_weights",
        "span/dense/bias": "cls/squad/output_bias",
    }
    google_prefix = "cls/squad/"
    signatures = "question_answering"
    answers_texts = True
    inputs = "QUESTION PASSAGE"
    class_axis = -1

    @cached_property
    def settings(self) -> SpanSettings:
        return SpanSettings.of_model(self.metadata)

    def encoded(self, columns: Sequence[list], labels: Any = None):
        check_num_columns(columns, 2, 2)
        columns, questions = checked_columns(*columns), []
        labels = [None] * len(columns[0]) if labels is None else as_list(labels)
        for index, (text, context, label) in enumerate(zip(*columns, labels, strict=True)):
            location = f"text [{index}]"
            try:  # `join` and `as_int` raise TypeError for values of other types
                answers = tuple(Answer("".join([a]), as_int(start)) for start, a in _pairs(label))
            except (KeyError, TypeError, ValueError) as error:
                expected = 'None or (first character, answer), such as (14, "at the bridge")'
                raise InputError(f"{location} has {quoted(label)}; expected {expected}") from error
            texts = {"id": "", "question": text, "context": context}
            question = Question(**texts, answers=answers, location=location)
            if answers and question.target is None:
                raise InputError(question.misplaced)
            questions.append(question)
        return self.settings.windows(questions, self.tokenizer, max_length=self.metadata.max_length)

    def compile_arguments(self):
        return span_losses()

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        settings = replace(self.settings, num_best=2)  # the least in 2.0; only the best is used
        return [
            {
                "answer": each.text,
                "start": each.start,
                "end": each.start + len(each.text),
                "score": each.score,
                "no_answer_score": each.no_answer_score,
            }
            for each in predict_answers(columns[1], rows, outputs, settings)
        ]

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        is_real_BT, lowest = inputs["input_mask"] > 0, np.finfo(np.float32).min
        return {
            f"{end}_logits": np.where(is_real_BT, logits[end], lowest) for end in ("start", "end")
        }

    @classmethod
    def lines(cls, answer: dict):
        return [answer["answer"] or "no answer"]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence):
        """Returns the questions with a score below 1, and for SQuAD 2.0 a confusion matrix."""
        from markupsafe import Markup

        from bert_keras.reports.evaluation import Findings, confusion_matrix

        errors, pairs = [], []
        for question, prediction in zip(examples, predictions, strict=True):
            score = task.score([question], [prediction])[task.question_metric]
            text = prediction.text
            pairs.append((ANSWER if question.answers else NONE, ANSWER if text else NONE))
            if score == 1.0:
                continue
            probability = next(c.probability for c in prediction.candidates if c.text == text)
            golds = list(dict.fromkeys(answer.text for answer in question.answers))
            context = Markup("{}<br>{}").format(question.question, _mark_context(question, text))
            cells = [context, " / ".join(golds) or NONE, text or NONE, probability, f"{score:.2f}"]
            errors.append(((1.0 - score) * probability, cells))
        matrix = []
        if task.allows_no_answer:
            matrix = [confusion_matrix("Answer or none", pairs, [ANSWER, NONE])]
        title = task.question_metric.replace("_", "-").upper()
        columns = ["question and context", "gold", "predicted", "probability", title]
        order = "the largest errors first; gold answers are green, predicted red, both violet"
        return Findings(matrix, columns, errors, order)


def _pairs(label: Any) -> Iterable:
    """Returns the pairs (start, text) of a label: None, a pair, several pairs, or SQuAD's dict."""
    if isinstance(label, Mapping):
        starts, texts = label["answer_start"], label["text"]
        return [(starts, texts)] if isinstance(texts, str) else zip(starts, texts, strict=True)
    if label is None:
        return []
    is_one_pair = not isinstance(label, str) and any(isinstance(each, str) for each in label)
    return [label] if is_one_pair else label


def span_losses() -> dict[str, Any]:
    """Returns arguments of `compile`: the loss is the mean for start and end (run_squad.py)."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weights = {"start": 0.5, "end": 0.5}
    return {"loss": dict.fromkeys(weights, loss), "loss_weights": weights}


def _mark_context(question: Question, predicted: str) -> "Markup":
    """Returns the context around the gold answers, with them and the predicted answer marked."""
    from markupsafe import Markup

    from bert_keras.reports.page import mark

    context = question.context
    golds = [range(each.start, each.start + len(each.text)) for each in question.answers]
    positions = (i for gold in golds for i in gold if 0 <= i < len(context))
    marks = dict.fromkeys(positions, "good")
    starts = [match.start() for match in re.finditer(re.escape(predicted), context) if predicted]
    gold_start = golds[0].start if golds else 0
    for start in sorted(starts, key=lambda start: abs(start - gold_start))[:1]:  # the nearest one
        for position in range(start, start + len(predicted)):
            marks[position] = "both" if position in marks else "bad"
    first = max(0, min(marks, default=0) - MARGIN)
    last = min(len(context), max(marks, default=0) + MARGIN)
    edges = [i for i in range(first + 1, last) if marks.get(i) != marks.get(i - 1)]
    spans = itertools.pairwise([first, *edges, last])
    text = Markup("").join(mark(context[start:end], marks.get(start, "")) for start, end in spans)
    return Markup("{}{}{}").format("… " * bool(first), text, " …" * (last < len(context)))
