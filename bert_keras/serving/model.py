"""Loads and runs a SavedModel with a TF1 session, as TF Serving does."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.exporting.verify import (
    path_without_patterns,
    register_text_ops,
    without_deprecation_notes,
)
from bert_keras.serving.calls import Refusal
from bert_keras.serving.requests import shape_text

Tensors = dict[str, np.ndarray]

# TensorFlow error code -> HTTP status, from ToHTTPStatusCode in
# tensorflow_serving/model_servers/http_server.cc; any other code becomes 500.
_HTTP_STATUS = {
    **{3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429},
    **{9: 400, 10: 409, 11: 400, 12: 501, 14: 503},
}


class LoadError(Exception):
    """A version folder that TensorFlow cannot load.

    Args:
        code: Name of TensorFlow's error code, such as "OUT_OF_RANGE".
        message: The error message.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class ServedModel:
    """One loaded version of a model. Many threads may call it at the same time.

    Args:
        folder: saved_models/NAME/VERSION.
        seconds: The most seconds that one run may take.

    Attributes:
        signatures: Maps each signature name to its SignatureDef.
        on_run: Called after each run with the argument `seconds`, the duration of the run.

    Raises:
        LoadError: If TensorFlow cannot load the folder.
    """

    signatures: dict[str, Any]
    on_run: Callable[..., None] | None = None

    def __init__(self, folder: Path, *, seconds: float = 30.0):
        import tensorflow as tf

        register_text_ops()
        v1 = tf.compat.v1
        self._seconds = seconds
        self._runs: dict[str, Callable[..., list[Any]]] = {}
        self._session = v1.Session(graph=v1.Graph(), config=_session_config())
        try:
            with (
                self._session.graph.as_default(),
                without_deprecation_notes(),
                path_without_patterns(folder) as path,
            ):
                self._load(path)
        except Exception as error:
            self.close()
            raise _load_error(error) from error

    def _load(self, path: str) -> None:
        """Load the graph, then restore the variables and make the callables in two threads.

        `v1.saved_model.loader.load` does the same in sequence. TensorFlow optimizes the graphs of
        the callables on one core, so another core can read the variables meanwhile.
        """
        from tensorflow.python.saved_model.loader_impl import SavedModelLoader

        loader, tags = SavedModelLoader(path), ["serve"]
        saver, _ = loader.load_graph(self._session.graph, tags)
        meta_graph: Any = loader.get_meta_graph_def_from_tags(tags)
        self.signatures = dict(meta_graph.signature_def)

        def restore() -> None:
            loader.restore_variables(self._session, saver)
            loader.run_init_ops(self._session, tags)

        def make_callables() -> None:
            for name, signature in self.signatures.items():
                if signature.inputs:
                    self._runs[name] = self._callable(signature)

        with ThreadPoolExecutor() as pool:
            for step in [pool.submit(restore), pool.submit(make_callables)]:
                step.result()  # damaged variables are reported first

    def _callable(self, signature):
        """Return a function from the inputs to the outputs, both in the signature's order.

        Like TF Serving and unlike `Session.run`, it does not check the static shapes.
        """
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions(
            feed=[info.name for info in signature.inputs.values()],
            fetch=[info.name for info in signature.outputs.values()],
            run_options=config_pb2.RunOptions(timeout_in_ms=round(self._seconds * 1000)),
        )
        return self._session._make_callable_from_options(options)

    def is_row_wise(self, signature_name: str, tensors: Tensors) -> bool:
        """Whether the signature declares one output row of fixed shape for each row of `tensors`.

        If another dimension of an output is open too, it has the length of the longest row in the
        batch. The outputs of a request would then depend on the requests in the same batch.

        Args:
            signature_name: One of `signatures`.
            tensors: Input arrays by name.
        """
        from tensorflow import TensorShape

        signature = self.signatures[signature_name]
        inputs = {n: TensorShape(info.tensor_shape) for n, info in signature.inputs.items()}
        outputs = [TensorShape(info.tensor_shape) for info in signature.outputs.values()]
        return (
            all(shape.rank and shape[0] is None for shape in [*inputs.values(), *outputs])
            and all(shape[1:].is_fully_defined() for shape in outputs)
            and all(shape.is_compatible_with(tensors[n].shape) for n, shape in inputs.items())
        )

    def predict(self, signature_name: str, tensors: Tensors) -> Tensors:
        """Run a signature.

        Args:
            signature_name: One of `signatures`. It must have inputs.
            tensors: Input arrays by name.

        Returns:
            Output arrays by name, sorted by name, because the order of a protobuf map changes
            from process to process.

        Raises:
            Refusal: If an op fails, with the op's message and the matching HTTP status; if all
                inputs are empty, with a message about this (400).
        """
        from tensorflow import errors

        signature, start = self.signatures[signature_name], time.perf_counter()
        try:
            arrays = self._runs[signature_name](*[tensors[name] for name in signature.inputs])
        except UnicodeDecodeError as error:
            # The message of an op quotes bytes that are not UTF-8; TensorFlow loses the error code.
            raise Refusal(error.object.decode("utf-8", "surrogateescape")) from error
        except errors.OpError as error:
            status = _HTTP_STATUS.get(error.error_code, 500)
            message = _no_values(tensors) if status == 400 else ""
            raise Refusal(message or error.message, status=status) from error
        finally:
            if self.on_run:
                self.on_run(seconds=time.perf_counter() - start)
        outputs = dict(zip(signature.outputs, arrays, strict=True))
        return {
            name: np.asarray(array, dtype=object if isinstance(array, bytes) else None)
            for name, array in sorted(outputs.items())
        }

    def close(self) -> None:
        """Close the session and free its memory."""
        self._session.close()


def _no_values(tensors: Tensors) -> str:
    """Return the message about a failed run whose inputs are all empty; "" for another run."""
    if any(array.size for array in tensors.values()):
        return ""
    name, array = next(iter(tensors.items()))
    return (
        f"The input {name} has the shape {shape_text(array.shape)} and no values; send at least "
        "one row, with values"
    )


def _session_config():
    """Return a session configuration that shortens loading.

    TensorFlow's graph optimizers run once instead of twice, which saves a third of the loading
    time. The disabled optimizers change no node of an encoder's graph on a CPU and took a third of
    the remaining time. No run became slower (tiny and base encoders, 1x128 to 8x24 tokens).
    """
    from tensorflow.core.protobuf.config_pb2 import ConfigProto, GraphOptions
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    rewriting = RewriterConfig(
        meta_optimizer_iterations=RewriterConfig.ONE,
        disable_tfg_optimizer=True,
        implementation_selector=RewriterConfig.OFF,
        layout_optimizer=RewriterConfig.OFF,
        memory_optimization=RewriterConfig.NO_MEM_OPT,
    )
    return ConfigProto(graph_options=GraphOptions(rewrite_options=rewriting))


def _load_error(error: Any) -> LoadError:
    from tensorflow import errors
    from tensorflow.core.protobuf import error_codes_pb2

    if isinstance(error, errors.OpError):
        code, message = error_codes_pb2.Code.Name(error.error_code), error.message
    else:
        code, message = "NOT_FOUND" if "does not exist" in str(error) else "DATA_LOSS", str(error)
    # The message of an op ends at the name of its node; Session.run adds text around both.
    text, node, _ = message.strip().partition("\n\t [[")
    return LoadError(code, text.splitlines()[-1 if node else 0] if text else code)
