"""A loaded model and its folder come in; each warm-up request of the folder was run when it ends.

TensorFlow allocates and chooses much in the first run of a signature, so that one takes long.
"""

from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.serving.model import LoadError, ServedModel
from bert_keras.serving.monitoring import CODES
from bert_keras.serving.protocol import Refused
from bert_keras.serving.requests import input_dtypes

_TIME_IS_UP = 504


def warm_up(model: ServedModel, folder: Path) -> None:
    """Replay assets.extra/tf_serving_warmup_requests, where `folder` has it.

    Raises LoadError where the file or one of its requests is faulty, as TF Serving refuses such a
    version; a run that takes longer than a request may is no fault.
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
