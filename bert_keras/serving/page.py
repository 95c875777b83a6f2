"""Renders the page on which a person tries a served model."""

import base64
import hashlib
from importlib.resources import files

from jinja2 import Template
from starlette.responses import HTMLResponse

_BEGIN, _END = "<script>", "</script>"


def page_response(model: str) -> HTMLResponse:
    """The page that sends requests to this server's /v1/models/`model`, and to nothing else.

    The browser runs the page's own script alone: no text or answer can become a script.
    """
    text = files("bert_keras.serving").joinpath("page.html").read_text(encoding="utf-8")
    script = text.partition(_BEGIN)[2].partition(_END)[0]
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
