"""Opens pages in a headless Chromium and reads their text or takes a picture."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

# Of everything that is shown, in frames and shadow trees too, which `--dump-dom` leaves out.
_TEXT = """(function text(root) {
  let found = "";
  for (const node of root.childNodes) {
    if (node.nodeType === 3) found += node.data + " ";
    if (node.nodeType !== 1 || ["SCRIPT", "STYLE", "TEMPLATE"].includes(node.tagName)) continue;
    if (node.shadowRoot) found += text(node.shadowRoot);
    if (node.tagName === "IFRAME" && node.contentDocument) found += text(node.contentDocument);
    found += text(node);
  }
  return found;
})(document)"""


class Page:
    """One tab, controlled with the DevTools protocol over a pair of pipes."""

    def __init__(self, to_browser: int, from_browser: int):
        self.write, self.read = os.fdopen(to_browser, "wb"), os.fdopen(from_browser, "rb")
        self.number, self.session = 0, {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def run(self, script: str):
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return reply["result"].get("value")

    def text(self) -> str:
        return " ".join((self.run(_TEXT) or "").split())

    def wait_for(self, *words: str, seconds: float = 40) -> str:
        """Waits until the page contains all of these texts and returns its text."""
        end = time.monotonic() + seconds
        while missing := [word for word in words if word not in (text := self.text())]:
            assert time.monotonic() < end, f"the page lacks {missing}; it shows: {text[:3000]}"
            time.sleep(0.2)
        return text

    def call(self, method: str, **parameters) -> dict:
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters, **self.session}
        self.write.write(json.dumps(call).encode() + b"\0")
        self.write.flush()
        while True:
            reply = b""
            while not reply.endswith(b"\0"):
                if not (byte := self.read.read(1) if reply else self.read.read1(1 << 20)):
                    raise EOFError("the browser has ended")
                reply += byte
            for message in map(json.loads, reply[:-1].split(b"\0")):
                if message.get("id") == self.number:
                    assert "error" not in message, message
                    return message["result"]


@contextlib.contextmanager
def browser_page(*, width: int = 1400, height: int = 900):
    """Yields a `Page` of a new browser; skips the test if there is none or it does not start."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs a Chromium to open the page with")
    for _ in range(3):  # on a machine with little free memory it may end at its start
        with started_browser([browser, f"--window-size={width},{height}"]) as (page, log):
            if page is not None:
                yield page
                return
            reason = log.read_text(errors="replace")[-500:]
    pytest.skip(f"{browser} does not start: {reason}")


@contextlib.contextmanager
def started_browser(command: list[str]):
    """Yields the first page of a browser, or None if it ends before, and its messages."""
    browser_reads, we_write = os.pipe()
    we_read, browser_writes = os.pipe()
    # It takes 3 and 4: none of the four may be one of these while they are put there.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (browser_reads, browser_writes)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        log = Path(profile, "messages.txt")
        with log.open("wb") as messages:
            process = subprocess.Popen(
                [*command, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe", "--enable-unsafe-swiftshader",
                 f"--user-data-dir={profile}"],
                preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)),
                pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=messages,
            )  # fmt: skip
        for end in (browser_reads, browser_writes, *ends):
            os.close(end)
        page = None
        try:
            with contextlib.suppress(BrokenPipeError, EOFError):
                page = Page(we_write, we_read)
            yield page, log
        finally:
            process.kill()
            process.wait()
