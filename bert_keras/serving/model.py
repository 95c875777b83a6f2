"""Defines `ServedModel`, and loads and runs a SavedModel with a TF1 session, as TF Serving does."""

import abc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from bert_keras.serving.rest_api import Refusal, Tensors
from bert_keras.serving.version_folder import METADATA

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


class ServedModel(abc.ABC):
    """One loaded version of a model, for many threads.

    Attributes:
        signatures: The SignatureDefs by name, in the form of TF Serving's metadata response.
        inputs: The dtypes of the inputs by name, by the name of the signature.
        num_threads: The threads that run the model.
    """

    num_threads = 2  # while one runs a long request, the other runs the others

    def __init__(self, signatures: dict[str, dict], *, is_ours: bool):
        self.signatures = signatures
        self.inputs = {
            name: {each: info["dtype"][3:].lower() for each, info in sorted(inputs.items())}
            for name, signature in signatures.items()
            if (inputs := signature["inputs"])
        }
        self._row_shapes: dict[str, dict[str, list[int]]] = {}
        if is_ours:
            self._row_shapes = {name: _row_shapes(signatures[name]) for name in self.inputs}

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

    @abc.abstractmethod
    def predict(self, signature_name: str, tensors: Tensors) -> Tensors:
        """Runs a signature; if that fails, the Refusal has the message."""

    def close(self) -> None:  # noqa: B027 - most models free it when they are deleted
        """Frees the memory of the model."""


class SessionModel(ServedModel):
    """A SavedModel in a TF1 session; a run may take at most `seconds`."""

    def __init__(self, folder: Path, *, seconds: float = 30.0):
        import tensorflow as tf
        from tensorflow.core.protobuf.config_pb2 import ConfigProto, GraphOptions
        from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

        # Registers the ops of tensorflow-text, which TF Serving contains, without importing Keras.
        package = Path(cast(Any, find_spec("tensorflow_text")).origin).parent
        tf.load_library(str(package / "python" / "ops"))
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
        self._session = v1.Session(graph=v1.Graph(), config=config)
        try:
            with self._session.graph.as_default():
                self._load(str(folder), is_ours=(folder / METADATA).is_file())
        except Exception as error:
            self.close()
            raise _load_error(error, folder) from error

    def _load(self, path: str, *, is_ours: bool) -> None:
        # Does the same as `v1.saved_model.loader.load`, but reads the variables while TensorFlow
        # optimizes the graphs of the callables, which it does on one core.
        from google.protobuf.json_format import MessageToDict
        from tensorflow.python.saved_model.loader_impl import SavedModelLoader

        loader, tags = SavedModelLoader(path), ["serve"]
        saver, _ = loader.load_graph(self._session.graph, tags)
        meta_graph: Any = loader.get_meta_graph_def_from_tags(tags)
        self._definitions = dict(meta_graph.signature_def)
        names = ("preserving_proto_field_name", "always_print_fields_with_no_presence")
        options = dict.fromkeys(names, True)
        shown = {name: MessageToDict(each, **options) for name, each in self._definitions.items()}
        super().__init__(shown, is_ours=is_ours)

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

        signature = self._definitions[signature_name]
        # Like TF Serving and unlike `Session.run`, it does not check the static shapes.
        options = config_pb2.CallableOptions(
            feed=[signature.inputs[name].name for name in sorted(signature.inputs)],
            fetch=[signature.outputs[name].name for name in sorted(signature.outputs)],
            run_options=config_pb2.RunOptions(timeout_in_ms=round(self._seconds * 1000)),
        )
        return self._session._make_callable_from_options(options)  # noqa: SLF001 - see above

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
        names = sorted(self.signatures[signature_name]["outputs"])
        return {
            name: np.asarray(array, dtype=object if isinstance(array, bytes) else None)
            for name, array in zip(names, arrays, strict=True)
        }

    def close(self) -> None:
        """Frees the memory of the session."""
        self._session.close()


def _row_shapes(signature: dict) -> dict[str, list[int]]:
    """Returns the shape of each input, -1: any size; {} if it does not compute row by row."""
    inputs, outputs = (
        {
            name: [int(dim["size"]) for dim in info["tensor_shape"].get("dim", ())]
            for name, info in signature[infos].items()
        }
        for infos in ("inputs", "outputs")
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
