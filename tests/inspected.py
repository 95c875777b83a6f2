"""Reads the data of a page of `bert-keras inspect`, as the script of the page does."""

import base64
import json
import re
from pathlib import Path

import numpy as np


def data_of(page: Path) -> dict:
    """Returns the data of a page."""
    text = page.read_text("utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(data)


def weights_of(data: dict) -> np.ndarray:
    """Returns the attention probabilities, float [L, N, T, T]."""
    attention, size = data["attention"], len(data["attention"]["tokens"])
    steps = np.frombuffer(base64.b64decode(attention["weights"]), "<u2")
    shape = data["num_layers"], data["num_heads"], size, size
    return steps.reshape(shape) / attention["steps"]
