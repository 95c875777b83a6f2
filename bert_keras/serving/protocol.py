"""The frame of TF Serving's REST API: a method and a path come in, the call they mean goes out."""

import json
import re
from dataclasses import dataclass
from urllib.parse import unquote

# The grammar is that of tensorflow_serving/model_servers/http_rest_api_util.cc.
_VERSION = r"(?:(?:/versions/(?P<version>[0-9]+))|(?:/labels/(?P<label>[^/:]+)))?"
_POST = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)", re.IGNORECASE
)
_GET = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?:/(?P<verb>metadata))?", re.IGNORECASE
)
_LARGEST_VERSION = 2**63 - 1

NOT_FOUND_PAGE = (
    "<HTML><HEAD>\n<TITLE>404 Not Found</TITLE>\n</HEAD><BODY>\n"
    "<H1>Not Found</H1>\n</BODY></HTML>\n"
)


class Refused(Exception):
    """A call that TF Serving answers with an error: its sentence and its HTTP status."""

    def __init__(self, sentence: str, *, status: int = 400):
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status

    def body(self) -> bytes:
        """The JSON error body; nothing where TF Serving sends nothing."""
        return json_bytes({"error": self.sentence}) if self.sentence else b""


@dataclass(frozen=True)
class Call:
    """What a path asks for. `verb`: status, metadata, predict, classify or regress."""

    model: str
    version: int | None
    label: str | None
    verb: str

    @property
    def servable(self) -> str:
        """The name that TF Serving gives in "Servable not found for request"."""
        if self.version is None:
            return f"Latest({self.model})"
        return f"Specific({self.model}, {self.version})"


def read_call(method: str, path: str) -> Call:
    """The call behind a request line; `path` is percent-encoded and holds the query.

    Raises Refused (400) where TF Serving knows no such request.
    """
    grammar = {"GET": _GET, "POST": _POST}.get(method)
    match = grammar and grammar.fullmatch(path)
    if not match:
        raise Refused(f"Malformed request: {method} {path}")
    version = match["version"] and int(match["version"][:32])
    if version and version > _LARGEST_VERSION:
        raise Refused("")
    verb = match["verb"] or "status"
    if method == "POST" and verb != verb.lower():
        raise Refused(f"Malformed request: {method} {path}")
    if not match["model"]:
        raise Refused("Missing model name in request.")
    label = match["label"] and unquote(match["label"])
    # As in TF Serving, whose paths match in any case while it compares "metadata" exactly.
    return Call(unquote(match["model"]), version, label, verb if verb == verb.lower() else "status")


def json_bytes(value: object) -> bytes:
    """`value` as indented UTF-8 JSON; bytes that came in as surrogate escapes go out unchanged."""
    text = json.dumps(value, indent=4, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")
