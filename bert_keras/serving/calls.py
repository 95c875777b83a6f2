"""Parses the method and path of a REST request into a model name, a version and a verb."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from bert_keras.exporting.version_folder import LARGEST_VERSION

# The grammar is that of tensorflow_serving/model_servers/http_rest_api_util.cc.
_VERSION = r"(?:(?:/versions/(?P<version>[0-9]+))|(?:/labels/(?P<label>[^/:]+)))?"
_POST = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)", re.IGNORECASE
)
_GET = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?:/(?P<verb>metadata))?", re.IGNORECASE
)


class Refusal(Exception):
    """A request that the server rejects with an error.

    Args:
        message: The error message of the response.
        status: The HTTP status of the response.
    """

    def __init__(self, message: str, *, status: int = 400):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Call:
    """A parsed request line."""

    model: str  # name of the model
    version: int | None  # number of the version, if the path has one
    label: str | None  # label of the version, if the path has one
    verb: str  # status, metadata, predict, classify or regress


def read_call(method: str, path: str) -> Call:
    """Parse a request line.

    Args:
        method: HTTP method.
        path: Percent-encoded path, with the query.

    Returns:
        The call, with percent-decoded model name and label.

    Raises:
        Refusal: If TF Serving has no such request (400). The error message is empty if the version
            number exceeds 64 bits, because TF Serving then sends an empty body.
    """
    grammar = {"GET": _GET, "POST": _POST}.get(method)
    match = grammar and grammar.fullmatch(path)
    if not match:
        raise Refusal(f"Malformed request: {method} {path}")
    version = int(match["version"][:32]) if match["version"] else None
    if version and version > LARGEST_VERSION:
        raise Refusal("")
    verb = match["verb"] or "status"
    if method == "POST" and verb != verb.lower():
        raise Refusal(f"Malformed request: {method} {path}")
    if not match["model"]:
        raise Refusal("Missing model name in request.")
    label = match["label"] and unquote(match["label"])
    # TF Serving ignores case when it matches a path, but then compares "metadata" exactly.
    return Call(unquote(match["model"]), version, label, verb if verb == verb.lower() else "status")
