"""One version that answers: a version folder comes in, outputs for named inputs go out."""

import time
from concurrent.futures import Future
from pathlib import Path

from bert_keras.serving.batching import Batcher
from bert_keras.serving.limits import Limits
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.monitoring import Monitoring
from bert_keras.serving.rows import Rows, Tensors
from bert_keras.serving.warming_up import warm_up

_NUM_THREADS = 2  # a long request in one leaves the other to all else
_CLOSE_SECONDS = 5.0  # for what still runs when the server stops


class Servable:
    """A loaded, warm model and the queue before it. Raises LoadError as `ServedModel` and `warm_up`
    do."""

    def __init__(self, folder: Path, *, limits: Limits, monitoring: Monitoring):
        self.model = ServedModel(folder, seconds=limits.seconds)
        try:
            warm_up(self.model, folder)
        except LoadError:
            self.model.close()
            raise
        self._monitoring = monitoring
        self._batcher = Batcher(
            Rows(self),
            max_batch_size=limits.max_batch_size,
            num_threads=_NUM_THREADS,
            shared=monitoring.shared,
            ended=self.model.close,
        )

    def submit(self, signature_name: str, tensors: Tensors) -> Future:
        """The outputs by name, once they are there; see `Batcher.submit`."""
        return self._batcher.submit(signature_name, tensors)

    def predict(self, signature_name: str, tensors: Tensors) -> Tensors:
        start = time.perf_counter()
        try:
            return self.model.predict(signature_name, tensors)
        finally:
            self._monitoring.ran(seconds=time.perf_counter() - start)

    def declares_rows(self, signature_name: str, tensors: Tensors) -> bool:
        return self.model.declares_rows(signature_name, tensors)

    def close(self) -> None:
        """Take nothing new; the memory is given back when what waits has run."""
        self._batcher.close(seconds=_CLOSE_SECONDS)
