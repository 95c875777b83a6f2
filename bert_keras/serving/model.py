"""Loads and runs a SavedModel as TF Serving does, with a TF1 session."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.export.verify import register_text_ops, without_deprecation_notes
from bert_keras.serving.calls import Refused

Tensors = dict[str, np.ndarray]

# tensorflow_serving/model_servers/http_server.cc, ToHTTPStatusCode; others are 500.
_HTTP_STATUS = {
    **{3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429},
    **{9: 400, 10: 409, 11: 400, 12: 501, 14: 503},
}


class LoadError(Exception):
    """A version folder that TensorFlow cannot load: its code (such as OUT_OF_RANGE) and reason."""

    def __init__(self, code: str, reason: str):
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ServedModel:
    """One loaded version of a model. Safe to call from many threads.

    Args:
        folder: saved_models/NAME/VERSION.
        seconds: How long one run may take.

    Attributes:
        signatures: SignatureDef by name.
        on_run: Called after each run with its `seconds`.

    Raises:
        LoadError: where TensorFlow cannot load the folder.
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
            with self._session.graph.as_default(), without_deprecation_notes():
                self._load(folder)
        except Exception as error:
            self.close()
            raise _load_error(error) from error

    def _load(self, folder: Path) -> None:
        """As `v1.saved_model.loader.load` does, which has no room for the callables: TensorFlow
        optimizes their graphs on one core, while the other reads the variables."""
        from tensorflow.python.saved_model.loader_impl import SavedModelLoader

        loader, tags = SavedModelLoader(str(folder)), ["serve"]
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
        """Inputs to outputs in the signature's order, without the static shape check of
        Session.run, which TF Serving does not make either."""
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions(
            feed=[info.name for info in signature.inputs.values()],
            fetch=[info.name for info in signature.outputs.values()],
            run_options=config_pb2.RunOptions(timeout_in_ms=round(self._seconds * 1000)),
        )
        return self._session._make_callable_from_options(options)

    def declares_rows(self, signature_name: str, tensors: Tensors) -> bool:
        """Whether the signature is declared to give a row of known shape for each row of `tensors`.

        A second open dimension of an output is as long as the longest row of a batch: a request
        that was joined with others would see how long theirs were.
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
            signature_name: One of `signatures` that has inputs.
            tensors: Input arrays by name.

        Returns:
            Output arrays by name, sorted: the order of a protobuf map differs after every start.

        Raises:
            Refused: with the message and status of a failing op.
        """
        from tensorflow import errors

        signature, start = self.signatures[signature_name], time.perf_counter()
        try:
            arrays = self._runs[signature_name](*[tensors[name] for name in signature.inputs])
        except UnicodeDecodeError as error:
            # An op's message that quotes bytes of the request: TensorFlow loses its code.
            raise Refused(error.object.decode("utf-8", "surrogateescape")) from error
        except errors.OpError as error:
            raise Refused(error.message, status=_HTTP_STATUS.get(error.error_code, 500)) from error
        finally:
            if self.on_run:
                self.on_run(seconds=time.perf_counter() - start)
        outputs = dict(zip(signature.outputs, arrays, strict=True))
        return {
            name: np.asarray(array, dtype=object if isinstance(array, bytes) else None)
            for name, array in sorted(outputs.items())
        }

    def close(self) -> None:
        """Give the session's memory back."""
        self._session.close()


def _session_config():
    """One round of TensorFlow's graph optimizers instead of two, which saves a third of the time
    of loading. Those that are off change no node of an encoder's graph on a CPU and took a third of
    the time that is left. No run became slower (tiny and base encoders, 1x128 to 8x24 tokens)."""
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
    # An op's own sentence stands before its node; Session.run puts more around them.
    sentence, node, _ = message.strip().partition("\n\t [[")
    return LoadError(code, sentence.splitlines()[-1 if node else 0] if sentence else code)
