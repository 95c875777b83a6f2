"""A SavedModel as TF Serving runs it: a version folder comes in, output arrays go out."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from bert_keras.export.verify import register_text_ops, without_deprecation_notes
from bert_keras.serving.protocol import Refused

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
    """One version of a model, loaded and run the TF1 session way.

    `seconds`: how long one run may take. Raises LoadError where TensorFlow cannot load it. Safe to
    call from many threads.
    """

    def __init__(self, folder: Path, *, seconds: float = 30.0):
        from tensorflow.compat import v1

        register_text_ops()
        self._seconds = seconds
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
        self.signatures = dict(loader.get_meta_graph_def_from_tags(tags).signature_def)

        def restore() -> None:
            loader.restore_variables(self._session, saver)
            loader.run_init_ops(self._session, tags)

        def make_callables() -> None:
            self._run = {
                name: self._callable(signature)
                for name, signature in self.signatures.items()
                if signature.inputs
            }

        with ThreadPoolExecutor() as pool:
            for step in [pool.submit(restore), pool.submit(make_callables)]:
                step.result()  # what is damaged is told before what cannot be asked

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

    def declares_rows(self, signature_name: str, tensors: dict[str, np.ndarray]) -> bool:
        """Whether the signature is declared to give a row of known shape for each row of `tensors`.

        A second open dimension of an output is as long as the longest row of a batch: a request
        that was joined with others would see how long theirs were.
        """
        signature = self.signatures[signature_name]
        outputs = [info.tensor_shape for info in signature.outputs.values()]
        return all(_is_open(shape) and -1 not in _sizes(shape)[1:] for shape in outputs) and all(
            _is_open(info.tensor_shape) and _fits(tensors[name].shape, _sizes(info.tensor_shape))
            for name, info in signature.inputs.items()
        )

    def predict(self, signature_name: str, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a signature by name; raises Refused with the message of a failing op."""
        from tensorflow import errors

        signature = self.signatures[signature_name]
        try:
            arrays = self._run[signature_name](*[tensors[name] for name in signature.inputs])
        except UnicodeDecodeError as error:
            # An op's message that quotes bytes of the request: TensorFlow loses its code.
            message = error.object.decode("utf-8", "surrogateescape")
            raise Refused(message) from error
        except errors.OpError as error:
            status = _HTTP_STATUS.get(error.error_code, 500)
            raise Refused(error.message, status=status) from error
        # Sorted: a protobuf map has another order after every start, and answers should not.
        outputs = dict(zip(signature.outputs, arrays, strict=True))
        return {
            name: np.asarray(
                outputs[name], dtype=object if isinstance(outputs[name], bytes) else None
            )
            for name in sorted(outputs)
        }

    def metadata(self) -> dict[str, object]:
        """The signatures as TF Serving shows them under "signature_def"."""
        from google.protobuf.json_format import MessageToDict

        return {
            name: MessageToDict(
                signature,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name, signature in self.signatures.items()
        }

    def close(self) -> None:
        """Give the session's memory back."""
        self._session.close()


def _session_config():
    """One round of TensorFlow's graph optimizers, not two, which saves a third of the time of
    loading; of what is left of making callables, a third went into those that are off, which
    change no node of an encoder's graph on a CPU.

    No run became slower: one round, tiny and base, 1x128 to 8x24; the others off, base, texts and
    pieces, 1x16 and 8x24.
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


def _sizes(shape) -> list[int]:
    return [dimension.size for dimension in shape.dim]


def _is_open(shape) -> bool:
    """Whether a declared shape (TensorShapeProto) has any number of rows."""
    return not shape.unknown_rank and _sizes(shape)[:1] == [-1]


def _fits(shape: tuple[int, ...], declared: list[int]) -> bool:
    return len(shape) == len(declared) and all(
        size in (-1, given) for given, size in zip(shape, declared, strict=True)
    )


def _load_error(error: Exception) -> LoadError:
    from tensorflow import errors
    from tensorflow.core.protobuf import error_codes_pb2

    if isinstance(error, errors.OpError):
        code = error_codes_pb2.Code.Name(error.error_code)
    else:
        code = "NOT_FOUND" if "does not exist" in str(error) else "DATA_LOSS"
    message = error.message if isinstance(error, errors.OpError) else str(error)
    # An op's own sentence stands before its node; Session.run puts more around them.
    sentence, node, _ = message.strip().partition("\n\t [[")
    return LoadError(code, sentence.splitlines()[-1 if node else 0] if sentence else code)
