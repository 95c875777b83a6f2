"""What tests of formats share."""

import contextlib
import json
import resource
from pathlib import Path

import pytest


@pytest.fixture
def file_size_limit():
    """A maker of blocks in which no file can grow beyond some bytes, as on a disk that is full."""

    @contextlib.contextmanager
    def limit(num_bytes: int):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit


def change_json(path: Path, **values) -> None:
    """Replaces values of a JSON file, which need not exist; None removes a key."""
    changed = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    changed = {name: value for name, value in (changed | values).items() if value is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(changed), "utf-8")
