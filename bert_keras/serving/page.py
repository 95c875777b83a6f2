"""Renders the HTML page on which a user tries a served model in the browser."""

import base64
import hashlib
from importlib.resources import files

from jinja2 import Template
from starlette.responses import HTMLResponse

_SCRIPT_START, _SCRIPT_END = "<script>", "</script>"


def page_response(model: str) -> HTMLResponse:
    """Return the page that sends requests to /v1/models/`model` of this server.

    Its Content-Security-Policy allows only the page's own script and requests to this server, so
    the browser never executes a text or a response as a script.

    Args:
        model: Name of the served model.
    """
    text = files("bert_keras.serving").joinpath("page.html").read_text(encoding="utf-8")
    script = text.partition(_SCRIPT_START)[2].partition(_SCRIPT_END)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
        "Vary": "Accept",
    }
    return HTMLResponse(Template(text, autoescape=True).render(model=model), headers=headers)
