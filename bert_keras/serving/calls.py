"""Parses the method and path of a request of TF Serving's REST API into the call that they mean."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from bert_keras.export.version_folder import LARGEST_VERSION

# The grammar is that of tensorflow_serving/model_servers/http_rest_api_util.cc.
_VERSION = r"(?:(?:/versions/(?P<version>[0-9]+))|(?:/labels/(?P<label>[^/:]+)))?"
_POST = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)", re.IGNORECASE
)
_GET = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?:/(?P<verb>metadata))?", re.IGNORECASE
)


class Refused(Exception):
    """A request that TF Serving answers with an error: its sentence and its HTTP status."""

    def __init__(self, sentence: str, *, status: int = 400):
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


@dataclass(frozen=True)
class Call:
    """What a path asks for."""

    model: str
    version: int | None
    label: str | None
    verb: str  # status, metadata, predict, classify or regress


def read_call(method: str, path: str) -> Call:
    """Parse a request line.

    Args:
        method: HTTP method.
        path: Percent-encoded path, with the query.

    Raises:
        Refused: (400) where TF Serving has no such request. Its sentence is empty for a version
            number beyond 64 bits, to which TF Serving answers with an empty body.
    """
    grammar = {"GET": _GET, "POST": _POST}.get(method)
    match = grammar and grammar.fullmatch(path)
    if not match:
        raise Refused(f"Malformed request: {method} {path}")
    version = int(match["version"][:32]) if match["version"] else None
    if version and version > LARGEST_VERSION:
        raise Refused("")
    verb = match["verb"] or "status"
    if method == "POST" and verb != verb.lower():
        raise Refused(f"Malformed request: {method} {path}")
    if not match["model"]:
        raise Refused("Missing model name in request.")
    label = match["label"] and unquote(match["label"])
    # As in TF Serving, whose paths match in any case while it compares "metadata" exactly.
    return Call(unquote(match["model"]), version, label, verb if verb == verb.lower() else "status")
