"""Private names of other packages that both packages use, with the reason: no public way exists."""

import ast
from collections import defaultdict
from pathlib import Path

import keras

ROOT = Path(__file__).resolve().parents[2]
LOOP = "Keras reads a batch there, which changes the order of shuffled data"
OWN_LIST = "`stateless_apply` of JAX gives no variables, and an own list would be tracked"
LAYERS = "layers, unlike models, do not list their layers"
DEPRECATED = "loads variables later; the public function warns that it is deprecated"
# Name, or module: why it is used, and the files.
PRIVATE_NAMES = {
    "_maybe_symbolic_build": (LOOP, "distribution/model"),
    "_symbolic_build": (LOOP, "distribution/model"),
    "_get_variable_index": ("Keras' own example of an optimizer uses it", "training/optimizer"),
    "_trainable_variables": (OWN_LIST, "training/optimizer"),
    "_initializer": ("each weight is read once, to its place", "checkpoints/pretrained"),
    "_flatten_layers": (LAYERS, "checkpoints/pretrained"),
    "tensorflow.python.saved_model.loader_impl": (DEPRECATED, "serving/model"),
    "_make_callable_from_options": ("`Session.run` checks static shapes", "serving/model"),
}
PUBLIC = {"_replace", "_asdict", "_fields", "_exit"}  # of named tuples, and of os


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and name.strip("_") and name[-2:] != "__"


def of_keras() -> set[str]:
    """Private names of the classes of Keras from which ours inherit: an equal name replaces one."""
    objects = [
        *(keras.Model(), keras.layers.Layer(), keras.optimizers.SGD(), keras.metrics.Mean()),
        *(keras.losses.Loss(), keras.callbacks.Callback(), keras.utils.PyDataset()),
    ]
    return {name for each in objects for name in dir(each) if is_private(name)}


def defined(tree) -> set[str]:
    """Names that a file defines: functions, classes, variables, and attributes of self."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if ast.unparse(node.value) in ("self", "cls") else set()
        elif isinstance(node, ast.Constant):  # in self.__dict__["_name"]
            names |= {node.value} if is_private(node.value) else set()
    return names


def used(tree):
    """Yields private attributes, methods and modules, whosever they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from (each.name for each in node.body if isinstance(each, ast.FunctionDef))
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".")
            if {"src", "python"} & {*parts} or any(map(is_private, parts)):
                yield node.module
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            yield from (getattr(each, "value", None) for each in node.args[1:2])


def test_private_names_of_other_packages_are_those_of_the_table():
    paths = [*(ROOT / "bert_keras").rglob("*.py"), *(ROOT / "tfrecords_tools").rglob("*.py")]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in paths}
    own = set().union(*map(defined, trees.values())) - of_keras()
    found = defaultdict(set)
    for path, tree in trees.items():
        for name in used(tree):
            is_module = isinstance(name, str) and "." in name
            if is_module or (is_private(name) and name not in own | PUBLIC):
                module = str(path.with_suffix("").relative_to(ROOT))
                found[name].add(module.removeprefix("bert_keras/"))
    assert found == {name: {*files} for name, (_, *files) in PRIVATE_NAMES.items()}
