"""README.ko.md is in step with README.md: the same levels of headings, code and links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH, KOREAN = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.ko.md"))


def test_headings_and_code():
    for pattern in (r"^#+(?= )", r"^```.*?^```$", r"^- \*\*"):
        found = [re.findall(pattern, text, re.M | re.S) for text in (ENGLISH, KOREAN)]
        assert found[0] == found[1], pattern


def test_links():
    english, korean = (set(re.findall(r"\]\(([^)]*)\)", text)) for text in (ENGLISH, KOREAN))
    assert english - korean == {"README.ko.md"}
    assert korean - english == {"docs/ko/paper.md"}


def test_figures():
    figures = [sorted(re.findall(r"\d[\d.e-]*\d|\d", re.sub(r"\]\([^)]*\)", "", text)))
               for text in (ENGLISH, KOREAN)]  # fmt: skip
    assert figures[0] == figures[1]
