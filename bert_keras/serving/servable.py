"""Loads one version of a model, runs its warm-up requests and starts its batcher."""

from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.serving.batching import Batcher
from bert_keras.serving.calls import Refused
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.monitoring import CODES, Monitoring
from bert_keras.serving.requests import input_dtypes
from bert_keras.serving.rows import Rows

_NUM_THREADS = 2  # a long request in one leaves the other to all else
_CLOSE_SECONDS = 5.0  # for what still runs when the server stops
_TIME_IS_UP = 504


class Servable:
    """A loaded and warm version, with its queue.

    Attributes:
        model: The `ServedModel`.
        batcher: Takes requests for it.

    Raises:
        LoadError: as `ServedModel` and `warm_up` do.
    """

    def __init__(self, folder: Path, *, limits: Limits, monitoring: Monitoring):
        self.model = ServedModel(folder, seconds=limits.seconds)
        try:
            warm_up(self.model, folder)
        except LoadError:
            self.model.close()
            raise
        self.model.on_run = monitoring.ran
        self.batcher = Batcher(
            Rows(self.model),
            max_batch_size=limits.max_batch_size,
            num_threads=_NUM_THREADS,
            on_batch=monitoring.shared,
            on_end=self.model.close,
        )

    def close(self) -> None:
        """Take no new requests; the model is closed when what waits has run."""
        self.batcher.close(seconds=_CLOSE_SECONDS)


def warm_up(model: ServedModel, folder: Path) -> None:
    """Replay assets.extra/tf_serving_warmup_requests, where `folder` has it.

    TensorFlow allocates and chooses much in the first run of a signature, so that run takes long.

    Raises:
        LoadError: where the file or one of its requests is faulty, as TF Serving refuses such a
            version. A run that takes longer than a request may is no fault.
    """
    from bert_keras.export.warmup import warmup_requests

    try:
        requests = warmup_requests(folder)
    except InputError as error:
        raise LoadError("DATA_LOSS", str(error)) from error
    for request in requests:
        name, inputs = request["signature"] or "serving_default", request["inputs"]
        if not inputs:
            continue  # the log of another verb than predict, which this project writes none of
        try:
            if inputs.keys() != input_dtypes(model.signatures, name).keys():
                raise Refused(f"its inputs are {', '.join(sorted(inputs))}")
            model.predict(name, inputs)
        except Refused as refusal:
            if refusal.status != _TIME_IS_UP:
                code = CODES.get(refusal.status, "UNKNOWN")
                reason = f"a warm-up request of {name} fails: {refusal.sentence}"
                raise LoadError(code, reason) from refusal
