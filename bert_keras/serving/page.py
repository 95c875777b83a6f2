"""A model's name comes in; the page on which a person asks it goes out."""

import base64
import hashlib
import html
from importlib.resources import files

from starlette.responses import HTMLResponse

_BEGIN, _END = "<script>", "</script>"


def page_response(model: str) -> HTMLResponse:
    """One HTML file that asks this server's /v1/models/`model`, and may ask nothing else.

    Its browser runs the page's own script alone: what a text or an answer holds cannot become one.
    """
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
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
    return HTMLResponse(text.replace("{{model}}", html.escape(model)), headers=headers)
