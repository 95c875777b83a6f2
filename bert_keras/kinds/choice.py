"""Multiple choice: one of several endings or answers (Devlin et al. 2018, section 4.4)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bert_keras.kinds.classifier import SINGLE_LABEL
from bert_keras.kinds.kind import Kind, columns_of_answers, softmax


class ChoicePrediction(NamedTuple):
    """The choice that a model prefers."""

    choice: int  # index of the choice
    probabilities: list[float]  # one for each choice


def choose(logits_BC: np.ndarray, is_real_BC: np.ndarray | bool = True) -> list[ChoicePrediction]:
    """Returns the most probable choice of each example.

    Choices for which `is_real_BC`, bool [B, C], is False have probability 0.
    """
    logits_BC = np.where(is_real_BC, logits_BC, np.finfo(np.float32).min)
    probabilities_BC = np.where(is_real_BC, softmax(logits_BC), 0.0)
    choices = probabilities_BC.argmax(axis=1).tolist()
    return list(map(ChoicePrediction, choices, probabilities_BC.tolist()))


class Choice(Kind):
    """Contexts and columns of choices, and the index of the right choice of each context."""

    model = "BertMultipleChoice"
    heads = ("multiple_choice",)
    reads_pooled_output = True
    student = "BertEncoder"
    transformers_class = "ForMultipleChoice"
    weight_names: ClassVar = {"multiple_choice/dense": "classifier"}
    head_weight = "multiple_choice/dense/kernel"
    signatures = "multiple_choice"
    answers_texts = True
    inputs = "CONTEXT ENDING ENDING"

    @property
    def preprocessor(self):
        from bert_keras.data.preprocessor import ChoicePreprocessor

        return ChoicePreprocessor(self.tokenizer, max_length=self.metadata.max_length)

    def class_weights(self, weights: Mapping):
        return weights

    def compile_arguments(self):
        return SINGLE_LABEL.compile_arguments()

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        choices = zip(*columns[1:], strict=True)
        is_real_BC = np.array([[text != "" for text in row] for row in choices])
        return [each._asdict() for each in choose(np.stack(outputs), is_real_BC)]

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        is_real_BC = np.any(inputs["input_mask"] > 0, axis=-1)
        return columns_of_answers([each._asdict() for each in choose(logits, is_real_BC)])

    @classmethod
    def columns_of_arguments(cls, texts: Sequence[str], *, num_columns: int, source: str):
        """Returns a column of one text for the context and for each ending."""
        return tuple([text] for text in texts)

    @classmethod
    def ask(cls, model: Any, columns: tuple[list[str], ...]):
        (answer,) = model.predict(columns, verbose=0)
        return [(columns[1 + int(answer["choice"])][0], answer)]

    @classmethod
    def lines(cls, answer: dict):
        choice = answer["choice"]
        return [f"ending {choice + 1} {answer['probabilities'][choice]:.3f}"]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence):
        """Returns a confusion matrix of the choices, and the examples with a wrong choice."""
        from markupsafe import Markup

        from bert_keras.reports import evaluation
        from bert_keras.reports.page import mark

        pairs, errors = [], []
        for example, (choice, probabilities) in zip(examples, predictions, strict=True):
            pairs.append((str(example.label), str(choice)))
            if example.label == choice:
                continue
            marks = {example.label: "good", choice: "bad"}
            endings = [
                Markup("<div>{} {}</div>").format(
                    mark(text, marks.get(index, "")), mark("", note=f"{probabilities[index]:.2f}")
                )
                for index, text in enumerate(example.endings)
            ]
            text = f"{example.context} {example.start}".strip()
            cells = [text, Markup("").join(endings), probabilities[choice]]
            errors.append((probabilities[choice], cells))
        names = [str(index) for index in range(len(predictions[0].probabilities))]
        matrix = evaluation.confusion_matrix("Number of the ending", pairs, names)
        columns = ["context", "endings (green: correct, red: chosen)", "probability"]
        return evaluation.Findings([matrix], columns, errors, "the most probable predictions first")
