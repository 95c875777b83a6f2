"""A client of the REST API: a model's URL and instances come in, its predictions go out."""

import http.client
import json
import urllib.error
import urllib.request

from bert_keras.errors import InputError


def predict(url: str, instances: list, *, signature_name: str | None = None) -> list:
    """One prediction an instance, in order, from this project's server or from TF Serving.

    `url`: http://HOST:PORT/v1/models/NAME, with /versions/N where one version is meant. An instance
    is a value where the signature has one input, else {input name: value}.
    Raises InputError with the server's sentence, or where no server answers at `url`.
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url} is no URL; expected http://HOST:PORT/v1/models/NAME")
    body = {"instances": instances}
    if signature_name is not None:
        body["signature_name"] = signature_name
    request = urllib.request.Request(
        f"{url.removesuffix(':predict')}:predict",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read().decode(errors="replace"))["predictions"]
    except urllib.error.HTTPError as error:
        raise InputError(f"{url} answered {error.code}: {_sentence(error)}") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"no server answers at {url} ({reason}); start one with bert-keras serve"
        ) from error


def _sentence(error: urllib.error.HTTPError) -> str:
    try:
        return json.loads(error.read())["error"]
    except (ValueError, KeyError, TypeError):
        return error.reason
