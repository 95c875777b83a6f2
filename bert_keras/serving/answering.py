"""The verbs of the REST API for one model: a call and its body come in, a JSON body goes out."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bert_keras.serving.answers import classes_body, columns_body, rows_body, values_body
from bert_keras.serving.examples import check_signature, classes_of, read_examples, values_of
from bert_keras.serving.limits import Limits
from bert_keras.serving.monitoring import Monitoring
from bert_keras.serving.protocol import Call, json_bytes
from bert_keras.serving.requests import input_dtypes, read_predict
from bert_keras.serving.rows import Tensors
from bert_keras.serving.servable import Servable
from bert_keras.serving.version_folders import model_name
from bert_keras.serving.versions import Lease, Versions

# What takes the event loop longer than about a millisecond goes to a thread.
_MOST_BYTES_INLINE = 8 * 2**10
_MOST_NUMBERS_INLINE = 1000


class Answering:
    """What the served versions of a model answer. Raises InputError as `Versions` does."""

    def __init__(
        self,
        model_folder: str | os.PathLike,
        *,
        versions: Sequence[int] = (),
        labels: Mapping[str, int] | None = None,
        limits: Limits,
    ):
        self.monitoring = Monitoring(model_name(model_folder))
        self.versions = Versions(
            model_folder,
            numbers=versions,
            labels=labels,
            load=partial(Servable, limits=limits, monitoring=self.monitoring),
        )
        # Two, as they share Python's lock; more would only hold more documents at one time.
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="reader")

    async def answer(self, call: Call, body: bytes) -> bytes:
        """The JSON body for a call; raises Refused where TF Serving answers with an error."""
        if call.verb == "status":
            return json_bytes({"model_version_status": self.versions.statuses(call)})
        with self.versions.serving(call) as lease:
            if call.verb == "metadata":
                return self._metadata(call, lease)
            if call.verb == "predict":
                return await self._predict(lease, body)
            return await self._classify_or_regress(call, lease, body)

    def _metadata(self, call: Call, lease: Lease) -> bytes:
        signatures = lease.servable.model.metadata()
        spec = {"name": call.model, "version": str(lease.number), "signature_name": ""}
        return json_bytes(
            {"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}
        )

    async def _predict(self, lease: Lease, body: bytes) -> bytes:
        def inputs_of(name: str) -> dict[str, str]:
            return input_dtypes(lease.servable.model.signatures, name)

        request = await self._read(body, partial(read_predict, inputs_of=inputs_of))
        outputs = await _outputs(lease, request.signature_name, request.tensors)
        write = rows_body if request.form == "instances" else columns_body
        if sum(array.size for array in outputs.values()) <= _MOST_NUMBERS_INLINE:
            return write(outputs)
        return await self._in_thread(partial(write, outputs))

    async def _classify_or_regress(self, call: Call, lease: Lease, body: bytes) -> bytes:
        signature_name, examples = await self._read(body, read_examples)
        check_signature(call.verb, lease.servable.model.signatures, signature_name)
        outputs = await _outputs(lease, signature_name, {"inputs": examples})
        if call.verb == "classify":
            return classes_body(classes_of(outputs, num_examples=len(examples)))
        return values_body(values_of(outputs, num_examples=len(examples)))

    async def _read(self, body: bytes, read: Callable):
        if len(body) <= _MOST_BYTES_INLINE:
            return read(body)
        return await self._in_thread(partial(read, body))

    def _in_thread(self, function: Callable) -> asyncio.Future:
        return asyncio.get_running_loop().run_in_executor(self._readers, function)

    def close(self) -> None:
        """Stop watching the folder and give the memory back."""
        self.versions.close()
        self._readers.shutdown(cancel_futures=True)


async def _outputs(lease: Lease, signature_name: str, tensors: Tensors) -> Tensors:
    return await asyncio.wrap_future(lease.servable.submit(signature_name, tensors))
