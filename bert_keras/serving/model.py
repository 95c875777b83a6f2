"""Loads and runs a SavedModel with a TF1 session, as TF Serving does."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.exporting.verify import register_text_ops
from bert_keras.exporting.version_folder import METADATA
from bert_keras.serving.rest_api import Refusal, Tensors

# TensorFlow error code -> HTTP status, from ToHTTPStatusCode in
# tensorflow_serving/model_servers/http_server.cc; any other code becomes 500.
_HTTP_STATUS = {
    **{3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429},
    **{9: 400, 10: 409, 11: 400, 12: 501, 14: 503},
}


class LoadError(Exception):
    """A version folder that TensorFlow cannot load; `code` is its code, such as "OUT_OF_RANGE"."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class ServedModel:
    """One loaded version of a model, for many threads; a run may take at most `seconds`."""

    signatures: dict[str, Any]  # signature name -> SignatureDef
    # Name of each signature with inputs -> input name -> dtype, as for `read_predict`
    inputs: dict[str, dict[str, str]]

    def __init__(self, folder: Path, *, seconds: float = 30.0):
        import tensorflow as tf
        from tensorflow.core.protobuf.config_pb2 import ConfigProto, GraphOptions
        from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

        register_text_ops()
        # TensorFlow's graph optimizers run once instead of twice, which saves a third of the
        # loading time. The disabled optimizers do not change an encoder's graph on a CPU and took a
        # third of the remaining time. No run became slower (tiny and base encoders, 1x128 to 8x24).
        rewriting = RewriterConfig(
            meta_optimizer_iterations=RewriterConfig.ONE,
            disable_tfg_optimizer=True,
            implementation_selector=RewriterConfig.OFF,
            layout_optimizer=RewriterConfig.OFF,
            memory_optimization=RewriterConfig.NO_MEM_OPT,
        )
        config = ConfigProto(graph_options=GraphOptions(rewrite_options=rewriting))
        v1 = tf.compat.v1
        self._seconds = seconds
        self._row_shapes: dict[str, dict[str, list[int]]] = {}
        self._session = v1.Session(graph=v1.Graph(), config=config)
        try:
            with self._session.graph.as_default():
                self._load(str(folder))
        except Exception as error:
            self.close()
            raise _load_error(error, folder) from error
        if (folder / METADATA).is_file():
            self._row_shapes = {name: _row_shapes(self.signatures[name]) for name in self.inputs}

    def _load(self, path: str) -> None:
        # Does the same as `v1.saved_model.loader.load`, but reads the variables while TensorFlow
        # optimizes the graphs of the callables, which it does on one core.
        from tensorflow.core.framework.types_pb2 import DataType
        from tensorflow.python.saved_model.loader_impl import SavedModelLoader

        loader, tags = SavedModelLoader(path), ["serve"]
        saver, _ = loader.load_graph(self._session.graph, tags)
        meta_graph: Any = loader.get_meta_graph_def_from_tags(tags)
        self.signatures = dict(meta_graph.signature_def)

        def dtypes(infos: Any) -> dict[str, str]:  # TensorFlow's names without DT_
            return {name: DataType.Name(infos[name].dtype)[3:].lower() for name in sorted(infos)}

        signatures = self.signatures.items()
        self.inputs = {name: dtypes(each.inputs) for name, each in signatures if each.inputs}

        def restore() -> None:
            loader.restore_variables(self._session, saver)
            loader.run_init_ops(self._session, tags)

        with ThreadPoolExecutor() as pool:
            restored = pool.submit(restore)
            runs = pool.submit(lambda: {name: self._callable(name) for name in self.inputs})
            restored.result()  # damaged variables are reported first
            self._runs = runs.result()

    def _callable(self, signature_name: str) -> Callable[..., list[Any]]:
        """Returns a function from the inputs to the outputs, both in alphabetical order."""
        from tensorflow.core.protobuf import config_pb2

        signature = self.signatures[signature_name]
        # Like TF Serving and unlike `Session.run`, it does not check the static shapes.
        options = config_pb2.CallableOptions(
            feed=[signature.inputs[name].name for name in sorted(signature.inputs)],
            fetch=[signature.outputs[name].name for name in sorted(signature.outputs)],
            run_options=config_pb2.RunOptions(timeout_in_ms=round(self._seconds * 1000)),
        )
        return self._session._make_callable_from_options(options)

    def is_row_wise(self, signature_name: str, tensors: Tensors) -> bool:
        """Returns whether each output row depends on its input row alone.

        It does if bert-keras exported the model, each input and output has any number of rows, and
        no other dimension of an output is open, because the longest row of a run sets its size.
        """
        shapes = self._row_shapes.get(signature_name, {})
        fits = (
            len(shape) == tensors[name].ndim
            and all(size in (-1, n) for size, n in zip(shape, tensors[name].shape, strict=True))
            for name, shape in shapes.items()
        )
        return bool(shapes) and all(fits)

    def predict(self, signature_name: str, tensors: Tensors) -> Tensors:
        """Runs a signature; if an op fails, the Refusal has the op's message."""
        from tensorflow import errors

        try:
            arrays = self._runs[signature_name](*[tensors[name] for name in sorted(tensors)])
        except UnicodeDecodeError as error:
            # The message of an op quotes bytes that are not UTF-8; TensorFlow loses the error code.
            raise Refusal(error.object.decode("utf-8", "replace")) from error
        except errors.OpError as error:
            raise Refusal(error.message, status=_HTTP_STATUS.get(error.error_code, 500)) from error
        names = sorted(self.signatures[signature_name].outputs)
        return {
            name: np.asarray(array, dtype=object if isinstance(array, bytes) else None)
            for name, array in zip(names, arrays, strict=True)
        }

    def close(self) -> None:
        """Frees the memory of the session."""
        self._session.close()


def _row_shapes(signature: Any) -> dict[str, list[int]]:
    """Returns the shape of each input, -1: any size; {} if it does not compute row by row."""
    inputs, outputs = (
        {name: [dim.size for dim in info.tensor_shape.dim] for name, info in infos.items()}
        for infos in (signature.inputs, signature.outputs)
    )
    has_rows = all(shape[:1] == [-1] for shape in [*inputs.values(), *outputs.values()])
    return inputs if has_rows and all(-1 not in shape[1:] for shape in outputs.values()) else {}


def _load_error(error: Any, folder: Path) -> LoadError:
    from tensorflow import errors
    from tensorflow.core.protobuf import error_codes_pb2

    code = "DATA_LOSS" if (folder / "saved_model.pb").is_file() else "NOT_FOUND"
    message = str(error)
    if isinstance(error, errors.OpError):
        code, message = error_codes_pb2.Code.Name(error.error_code), error.message
    # The message of an op ends at the name of its node; Session.run adds text around both.
    text, node, _ = message.strip().partition("\n\t [[")
    return LoadError(code, text.splitlines()[-1 if node else 0] if text else code)
