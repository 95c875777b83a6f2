"""Loads one version of a model, runs its warm-up requests and starts its batcher."""

from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.serving.batching import Batcher
from bert_keras.serving.calls import Refusal
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.monitoring import CODES, Monitoring
from bert_keras.serving.requests import input_dtypes
from bert_keras.serving.rows import RowModel

_NUM_THREADS = 2  # while one thread runs a long request, the other runs the remaining requests
_CLOSE_SECONDS = 5.0  # for requests that still run when the server stops
_TIMEOUT_STATUS = 504  # HTTP status of a run that exceeded the time limit


class LoadedVersion:
    """A loaded version that has run its warm-up requests, with its request queue.

    Args:
        folder: saved_models/NAME/VERSION.
        limits: Limits on batches and on the time of a run.
        monitoring: Counts the runs.

    Attributes:
        model: The loaded `ServedModel`.
        batcher: The `Batcher` that queues and runs requests.

    Raises:
        LoadError: As `ServedModel` and `warm_up` do.
    """

    def __init__(self, folder: Path, *, limits: Limits, monitoring: Monitoring):
        self.model = ServedModel(folder, seconds=limits.seconds)
        try:
            warm_up(self.model, folder)
        except Exception:
            self.model.close()
            raise
        self.model.on_run = monitoring.count_run
        self.batcher = Batcher(
            RowModel(self.model),
            max_batch_size=limits.max_batch_size,
            num_threads=_NUM_THREADS,
            on_batch=monitoring.count_batch,
            on_end=self.model.close,
        )

    def close(self) -> None:
        """Refuse new requests; the model is closed after the queued requests have run."""
        self.batcher.close(seconds=_CLOSE_SECONDS)


def warm_up(model: ServedModel, folder: Path) -> None:
    """Run the requests in assets.extra/tf_serving_warmup_requests, if `folder` has this file.

    The first run of a signature is slow, because TensorFlow then allocates memory and chooses
    kernels. The warm-up requests move this cost to the start of the server.

    Args:
        model: The model loaded from `folder`.
        folder: saved_models/NAME/VERSION.

    Raises:
        LoadError: If the file is damaged or one of its requests fails, because TF Serving does not
            load such a version either. A request that exceeds the time limit is no failure.
    """
    from bert_keras.exporting.warmup import warmup_requests

    try:
        requests = warmup_requests(folder)
    except InputError as error:
        raise LoadError("DATA_LOSS", str(error)) from error
    for request in requests:
        name, inputs = request["signature"] or "serving_default", request["inputs"]
        if not inputs:
            continue  # a logged request of another verb than predict, which bert-keras never writes
        try:
            if inputs.keys() != input_dtypes(model.signatures, name).keys():
                raise Refusal(f"its inputs are {', '.join(sorted(inputs))}")
            model.predict(name, inputs)
        except Refusal as error:
            if error.status != _TIMEOUT_STATUS:
                code = CODES.get(error.status, "UNKNOWN")
                raise LoadError(code, f"a warm-up request of {name} fails: {error}") from error
