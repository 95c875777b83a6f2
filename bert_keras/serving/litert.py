"""Runs models in LiteRT's format, without TensorFlow and Keras."""

import os
import threading
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bert_keras.config import ModelMetadata
from bert_keras.data.encoded import longest_first_batches, print_num_truncated
from bert_keras.errors import InputError, check_count, suggest_keyword_names
from bert_keras.files import StrPath, check_exists, json_object
from bert_keras.kinds.choice import Choice
from bert_keras.kinds.kind import columns_of_answers, softmax
from bert_keras.kinds.known import KINDS
from bert_keras.serving.embeddings_api import COUNTS
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.rest_api import Refusal, Tensors
from bert_keras.serving.version_folder import LITERT, METADATA, exported_folder
from bert_keras.text.columns import columns_of
from bert_keras.text.fast_tokenizer import tokenizer_of, vocabulary_in

_BATCH_SIZE = 32
_TEXTS = ("text", "text_pair", "question", "context")  # inputs of signatures, in their order
# TensorFlow's name of a dtype -> NumPy's, and the value of padding
_DTYPES = {"DT_STRING": (object, ""), "DT_INT32": (np.int32, -1), "DT_FLOAT": (np.float32, 0)}
_RUN_POSITIONS = 16  # a run takes as long as its positions and about this number more
_NUM_SILENT = 1000  # texts; `predict` shows a progress bar for more


class ExportedModel:
    """A model in LiteRT's format with its vocabulary and labels; see `load_exported`.

    Several threads may call it; its runs use all processors, one after another.

    Attributes:
        metadata: The labels, the maximum length and the other metadata of the model.
        kind: The kind of the model, which converts texts to rows and outputs to answers.

    Example:

    ```python
    export("films", "saved_models/films/1", format="litert")
    model = load_exported("saved_models/films")
    print(model.metadata.labels)
    ```
    """

    def __init__(self, folder: Path, *, num_threads: int | None = None):
        from ai_edge_litert.interpreter import Interpreter

        stored = json_object(folder / METADATA)
        self.metadata = ModelMetadata.from_dict(stored["card"])
        self.signatures: dict[str, dict] = stored["signatures"]
        ids = self.signatures["tensors"]["inputs"]["input_ids"]
        self.rank = len(ids["tensor_shape"]["dim"])  # 3 if an example has several rows, else 2
        vocabulary: Any = vocabulary_in(folder / "assets")
        tokenizer = tokenizer_of(vocabulary, **self.metadata.tokenizer_settings)
        self.kind = KINDS[self.metadata.model](self.metadata, tokenizer)
        has_affinity = hasattr(os, "sched_getaffinity")  # macOS and Windows have not
        processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
        interpreter = Interpreter(str(folder / LITERT), num_threads=num_threads or processors)
        self._run = interpreter.get_signature_runner()
        self._one_run = threading.Lock()

    @suggest_keyword_names
    def predict(self, x: Any, batch_size: int = _BATCH_SIZE, verbose: str | int = "auto") -> Any:
        """Returns the answers that `predict` of the Keras model returns for texts.

        Args:
            x: N texts, as for the Keras model: a list of texts, a tuple of two lists for pairs, of
                questions and passages, or of contexts and each of their choices.
            batch_size: The texts of a run.
            verbose: 0 prints nothing; otherwise a progress bar appears for many texts.

        Returns:
            A list of N dicts, or the embeddings of a BertSentenceEncoder, float32 [N, E].
        """
        check_count("batch_size", batch_size)
        columns = self.with_prompt(columns_of(x))
        rows = self.kind.encoded(columns)
        print_num_truncated(rows, max_length=self.metadata.max_length)
        outputs = self.row_outputs(rows, batch_size=batch_size, is_silent=verbose == 0)
        return self.kind.answers(columns, rows, outputs)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Returns the embeddings of texts with the default prompt, float32 [N, E]."""
        return self.predict(texts)

    def with_prompt(self, columns: tuple[list, ...]) -> tuple[list, ...]:
        """Returns the texts with the default prompt of a sentence encoder before each."""
        prompt = self.metadata.embedding.prompt() if self.metadata.embedding else ""
        return tuple([prompt + text if prompt else text for text in each] for each in columns)

    def row_outputs(
        self, rows: Any, *, batch_size: int = _BATCH_SIZE, is_silent: bool = True
    ) -> list[Any]:
        """Returns the model's outputs, arrays or dicts of them, for each row of an `Encoded`."""
        outputs: list[Any] = [None] * len(rows)
        is_hidden = is_silent or len(rows) <= _NUM_SILENT
        with tqdm(desc="predict", unit=" rows", total=len(rows), disable=is_hidden) as bar:
            batches = longest_first_batches(rows.lengths, batch_size=batch_size)
            for indices_B in chain.from_iterable(_less_padded(b, rows.lengths) for b in batches):
                logits = self.logits(rows.batch(indices_B)[0])
                for position, index in enumerate(indices_B):
                    output = {name: array[position] for name, array in logits.items()}
                    outputs[index] = output.get("logits", output)
                bar.update(len(indices_B))
        return outputs

    def logits(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of the Keras model; an output without a name is called `logits`.

        Groups of texts, [B, G, T], are run as B x G rows by a model that embeds single texts.
        """
        if "masked_lm_positions" in self.signatures["tensors"]["inputs"]:
            length = inputs["input_ids"].shape[1]
            none_B1 = np.zeros((len(inputs["input_ids"]), 1), np.int32)
            positions_BP = inputs.get("masked_lm_positions", none_B1)
            positions_BP = positions_BP if positions_BP.shape[1] else none_B1
            is_valid_BP = (positions_BP > 0) & (positions_BP < length)
            inputs = {**inputs, "masked_lm_positions": positions_BP * is_valid_BP}
        groups = inputs["input_ids"].shape[: inputs["input_ids"].ndim - self.rank + 1]
        arrays = {
            name: np.ascontiguousarray(array.reshape(-1, *array.shape[len(groups) :]), np.int32)
            for name, array in inputs.items()
        }
        with self._one_run:
            outputs = self._run(**arrays)
        return {name: array.reshape(*groups, *array.shape[1:]) for name, array in outputs.items()}


def _less_padded(rows: np.ndarray, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Divides a batch, longest rows first, where a run costs less than the padding it saves."""
    rest = np.arange(len(rows), 0, -1)  # the number of rows from each row to the last
    num_saved = (lengths[rows[0]] - lengths[rows]) * rest
    cut = int(num_saved.argmax())
    if num_saved[cut] <= _RUN_POSITIONS:
        yield rows
        return
    yield from _less_padded(rows[:cut], lengths)
    yield from _less_padded(rows[cut:], lengths)


@suggest_keyword_names
def load_exported(path: StrPath, *, num_threads: int | None = None) -> ExportedModel:
    """Loads a model in LiteRT's format; needs neither TensorFlow nor Keras.

    Args:
        path: The folder saved_models/NAME/VERSION, or saved_models/NAME for the latest version,
            that `bert-keras export --format litert` wrote.
        num_threads: Threads of a run; by default one for each processor.

    Returns:
        A model whose `predict` takes texts.

    Raises:
        InputError: The folder holds no such model.

    Example:

    ```python
    export("films", "saved_models/films/1", format="litert")
    print(load_exported("saved_models/films/1").predict(["a good film"]))
    ```
    """
    check_exists(path, expected="saved_models/NAME/VERSION of an export")
    folder = exported_folder(path)
    if not (folder / LITERT).is_file():
        raise InputError(f"{folder} has no {LITERT}; export the model with --format litert")
    return ExportedModel(folder, num_threads=num_threads)


class LiteModel(ServedModel):
    """One loaded version in LiteRT's format, with the signatures of the SavedModel."""

    num_threads = 1  # of the batcher, because the runs of the model follow each other

    def __init__(self, folder: Path):
        try:
            self.model = ExportedModel(folder)
            super().__init__(self.model.signatures, is_ours=True)
        except (InputError, KeyError, TypeError, ValueError) as error:  # of a damaged file
            raise LoadError("DATA_LOSS", str(error)) from error

    def predict(self, signature_name: str, tensors: Tensors) -> Tensors:
        """Runs a signature as the SavedModel does."""
        infos = self.signatures[signature_name]["outputs"]
        if signature_name == "tensors":
            inputs = self._checked(tensors)
            logits = self.model.logits(inputs)
            outputs = self.model.kind.outputs(inputs, logits.get("logits", logits))
        else:
            columns = [tensors[name] for name in _TEXTS if name in tensors]
            choices = tensors.get("choices", np.zeros((0, 0), object)).T
            columns = self.model.with_prompt(columns_of((*columns, *choices)))
            outputs = self._of_texts(signature_name, columns)
        return {name: _array(outputs[name], infos[name]) for name in sorted(infos)}

    def _of_texts(self, signature_name: str, columns: tuple[list[str], ...]) -> Mapping:
        kind, num_choices = self.model.kind, len(columns) - 1
        if isinstance(kind, Choice) and num_choices == 1:
            columns = (*columns, [""] * len(columns[0]))  # the kind takes two or more
        rows = kind.encoded(columns)
        if signature_name == COUNTS:
            return {COUNTS: rows.lengths}
        outputs = self.model.row_outputs(rows)
        if signature_name == "next_sentence":
            logits_B2 = np.stack([each["next_sentence"] for each in outputs])
            return {"is_next_probability": softmax(logits_B2)[:, 0]}
        answers = kind.answers(columns, rows, outputs)
        if isinstance(answers, np.ndarray):
            return {"embedding": answers}
        outputs = columns_of_answers(answers)
        if isinstance(kind, Choice):
            outputs["probabilities"] = [each[:num_choices] for each in outputs["probabilities"]]
        return outputs

    def _checked(self, tensors: Tensors) -> Tensors:
        """Returns the inputs with the mask of `exporting.servable.checked_tensors`."""
        config = self.model.metadata.config
        limits = {"input_ids": config.vocab_size, "input_mask": 2}
        limits["segment_ids"] = max(2, config.num_segments)
        shape, rank = tensors["input_ids"].shape, self.model.rank
        for name, limit in limits.items():
            array = tensors[name]
            if array.shape != shape or array.ndim != rank or not array.size:
                raise Refusal(f"{name} has the shape {array.shape}; expected {rank} dimensions")
            if array.shape[-1] > config.max_positions:
                raise Refusal(f"an input has more than {config.max_positions} positions")
            if array.min() < 0 or array.max() >= limit:
                raise Refusal(f"{name} has numbers other than 0 to {limit - 1}")
        is_other = tensors["input_ids"] != self.model.kind.tokenizer.vocabulary.cls_id
        is_sent = np.flip(np.flip(is_other, -1).cumsum(-1), -1) > 0
        return {**tensors, "input_mask": tensors["input_mask"] * is_sent}


def _array(values: Any, info: Mapping) -> np.ndarray:
    """Converts an output, nested lists that may have several lengths, to the array of `info`."""
    dtype, filler = _DTYPES[info["dtype"]]
    sizes = [int(dim["size"]) for dim in info["tensor_shape"]["dim"]]
    if isinstance(values, np.ndarray):
        return values.astype(dtype)
    if len(sizes) == 1:
        array = np.array(values, dtype)
    else:
        inner = next((np.shape(each)[1:] for each in values if len(each)), tuple(sizes[2:]))
        array = np.full((len(values), max(map(len, values)), *inner), filler, dtype)
        for row, items in enumerate(values):
            array[row, : len(items)] = np.array(items, dtype).reshape(len(items), *inner)
    return np.vectorize(str.encode, otypes=[object])(array) if dtype is object else array
