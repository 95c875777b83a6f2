"""Prints the packages for JAX without TensorFlow, and those of the extras that are the arguments.

They are the dependencies of pyproject.toml without those that need TensorFlow.
"""

import re
import sys
import tomllib
from pathlib import Path

NEED_TENSORFLOW = {
    *("tensorflow", "tensorflow-text", "tensorflow-serving-api", "keras-nlp"),
    *("tensorflow-datasets", "tensorflow-metadata", "importlib_resources"),
}
path = Path(__file__).resolve().parents[1] / "pyproject.toml"
project = tomllib.loads(path.read_text("utf-8"))["project"]
for package in project["dependencies"]:
    if re.match(r"[\w.-]+", package)[0] not in NEED_TENSORFLOW:
        print(package)
for extra in ("jax", *sys.argv[1:]):
    print(*project["optional-dependencies"][extra], sep="\n")
