"""A SavedModel as TF Serving runs it: a folder of versions comes in, output arrays go out."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bert_keras.errors import InputError
from bert_keras.serving.protocol import Refused

# tensorflow_serving/model_servers/http_server.cc, ToHTTPStatusCode; others are 500.
_HTTP_STATUS = {3: 400, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 14: 503}


def latest_version(model_folder: str | os.PathLike) -> Path:
    """The version folder that TF Serving would load: the one with the largest number for a name.

    Raises InputError where there is no folder, no version in it, or no SavedModel in the version.
    """
    folder = Path(model_folder)
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; expected saved_models/NAME with versions in it"
        )
    versions = [child for child in folder.iterdir() if child.is_dir() and _is_number(child.name)]
    if not versions:
        hint = "give its parent folder" if _is_saved_model(folder) else "export a model first"
        raise InputError(
            f"{folder} holds no version folder (1, 2, ...), which TF Serving asks for; {hint}"
        )
    version = max(versions, key=lambda child: int(child.name))
    if not _is_saved_model(version):
        raise InputError(
            f"{version} is not a SavedModel: it has no saved_model.pb; export it again"
        )
    return version


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and int(name) < 2**63


def _is_saved_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))


class ServedModel:
    """The latest version of a model folder, loaded and run the TF1 session way.

    Raises InputError where TensorFlow cannot load it. Safe to call from many threads.
    """

    def __init__(self, model_folder: str | os.PathLike):
        # Their ops must be known before a graph that holds them is read; TF Serving has them too.
        import tensorflow_text  # noqa: F401
        from tensorflow.compat import v1

        folder = latest_version(model_folder)
        self.name = Path(model_folder).resolve().name
        self.version = int(folder.name)
        self._session = v1.Session(graph=v1.Graph())
        try:
            with self._session.graph.as_default(), _without_deprecation_notes():
                meta_graph = v1.saved_model.loader.load(self._session, ["serve"], str(folder))
        except Exception as error:
            self.close()
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"{folder} cannot be loaded as a SavedModel ({reason}); export it again"
            ) from error
        self.signatures = dict(meta_graph.signature_def)
        self._run = {
            name: self._callable(signature)
            for name, signature in self.signatures.items()
            if signature.inputs
        }

    def _callable(self, signature):
        """Inputs to outputs in the signature's order, without the static shape check of
        Session.run, which TF Serving does not make either."""
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions(
            feed=[info.name for info in signature.inputs.values()],
            fetch=[info.name for info in signature.outputs.values()],
        )
        return self._session._make_callable_from_options(options)

    def input_dtypes(self, signature_name: str) -> dict[str, str]:
        """{input name: dtype}, such as {"text": "string"}; raises Refused where it is unknown."""
        from tensorflow.core.framework import types_pb2

        if signature_name not in self.signatures:
            raise Refused(f'Serving signature name: "{signature_name}" not found in signature def')
        return {
            name: types_pb2.DataType.Name(info.dtype).removeprefix("DT_").lower()
            for name, info in sorted(self.signatures[signature_name].inputs.items())
        }

    def predict(self, signature_name: str, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a signature by name; raises Refused with the message of a failing op."""
        from tensorflow import errors

        signature = self.signatures[signature_name]
        try:
            arrays = self._run[signature_name](*[tensors[name] for name in signature.inputs])
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
        """The body of GET /v1/models/NAME/metadata."""
        from google.protobuf.json_format import MessageToDict

        signatures = {
            name: MessageToDict(
                signature,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name, signature in self.signatures.items()
        }
        return {
            "model_spec": {"name": self.name, "version": str(self.version), "signature_name": ""},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }

    def close(self) -> None:
        """Give the session's memory back."""
        self._session.close()


@contextlib.contextmanager
def _without_deprecation_notes() -> Iterator[None]:
    """TensorFlow calls its TF1 loader deprecated; it is the way in that TF Serving takes."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
