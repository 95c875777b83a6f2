"""The structure of both packages: import order, light imports, public names, CLI commands."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import bert_keras

ROOT = Path(__file__).resolve().parents[2]

# Lowest first. A file imports from its own package and from those listed before it.
ORDER = (
    *("fields", "errors", "arguments", "files", "text", "config", "families", "data"),
    *("reports", "kinds", "layers", "distribution", "checkpoints", "training", "serving"),
    *("exporting", "models", "downstream", "runs", "experiments", "cli"),
)

PACKAGES = ("bert_keras", "tfrecords_tools")


def module_of(path: Path) -> str:
    names = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def imports_of(path: Path):
    """Every module that `path` imports when it runs, also `package.module` imported by its name."""
    for node in nodes_of(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}, line {node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if is_module(name)]
            yield from modules
            if len(modules) < len(names):
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def nodes_of(tree: ast.AST):
    """Every node below `tree`, without the imports of type checkers."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes_of(node)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def sources(package: str):
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", sources("bert_keras"), ids=module_of)
def test_imports_point_downwards(path):
    if path.name == "__init__.py" and path.parent.name == "bert_keras":
        return
    package_part = module_of(path).split(".")[1]
    for module in imports_of(path):
        assert module != "bert_keras", f"{path}: imports a public name, not from its own module"
        if module.startswith("bert_keras."):
            imported = module.split(".")[1]
            assert ORDER.index(imported) <= ORDER.index(package_part), f"{path}: imports {module}"
        if module.split(".")[0] == "tfrecords_tools":
            assert package_part in ("experiments", "cli"), f"{path}: imports {module}"


@pytest.mark.parametrize("package", ["bert_keras", "tfrecords_tools"])
def test_there_are_no_import_circles(package):
    files = {module_of(path): path for path in sources(package)}
    graph = {
        name: {other for other in imports_of(path) if other in files and other != name}
        for name, path in files.items()
        if name != package  # its names are imported when they are used
    }
    TopologicalSorter(graph).prepare()  # CycleError names the circle


@pytest.mark.parametrize("path", sources("tfrecords_tools"), ids=module_of)
def test_the_writer_imports_only_text_and_data(path):
    for module in imports_of(path):
        assert module not in ("bert_keras", "keras") and not module.startswith("keras.")
        if module.startswith("bert_keras."):
            is_allowed = ORDER.index(module.split(".")[1]) <= ORDER.index("data")
            assert is_allowed, f"{path}: imports {module}"


def our_names(path: Path):
    """Every name that `path` imports from the packages, with its module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize(
    "path", [*sources("bert_keras"), *sources("tfrecords_tools")], ids=module_of
)
def test_no_module_imports_a_private_name(path):
    assert not [name for _, name in our_names(path) if name.startswith("_")]


@pytest.mark.parametrize("path", sources("benchmarks"), ids=lambda path: path.stem)
def test_a_benchmark_imports_names_that_exist(path):
    for module, name in our_names(path):
        assert is_module(f"{module}.{name}") or hasattr(import_module(module), name), name


def test_layers_and_models_are_pure_keras():
    for package in ("layers", "models"):
        for path in sources(f"bert_keras/{package}"):
            assert not any(m.split(".")[0] == "tensorflow" for m in imports_of(path)), path


def test_public_names_resolve():
    for name in bert_keras.__all__:
        value = getattr(bert_keras, name)
        assert isinstance(value, dict) or value.__name__ == name
    assert set(dir(bert_keras)) == set(bert_keras.__all__) and bert_keras.__version__
    for name, known in {"Trainer": "finetune", "BertClasifier": "BertClassifier"}.items():
        with pytest.raises(AttributeError, match=known):
            getattr(bert_keras, name)
        with pytest.raises(ImportError):
            exec(f"from bert_keras import {name}")


def test_no_module_hides_a_public_name():
    """An import of bert_keras.x would replace the public name x by the module."""
    assert not [name for name in bert_keras.__all__ if is_module(f"bert_keras.{name}")]


def test_imports_and_help_load_no_heavy_packages():
    code = (
        "import sys, bert_keras, bert_keras.cli, tfrecords_tools.check, tfrecords_tools.cli\n"
        "import importlib, pkgutil, bert_keras.kinds, tfrecords_tools.show\n"
        "for module in pkgutil.iter_modules(bert_keras.kinds.__path__, 'bert_keras.kinds.'):\n"
        "    importlib.import_module(module.name)\n"
        "from bert_keras import BertConfig, Vocabulary, preset\n"
        "for cli in (bert_keras.cli, tfrecords_tools.cli):\n"
        "    try: cli.main(['--help'])\n"
        "    except SystemExit: pass\n"
        "heavy = {'tensorflow', 'keras', 'keras_hub', 'tensorflow_text', 'tensorflow_datasets',\n"
        "         'tensorboard', 'pyarrow', 'jax', 'torch', 'transformers', 'h5py',\n"
        "         'scipy', 'sklearn', 'starlette', 'httpx', 'apache_beam'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


OURS = "demo pretrain finetune reproduce evaluate predict embed convert inspect export serve list"


@pytest.mark.parametrize(
    ("program", "verbs"), [("bert_keras", OURS), ("tfrecords_tools", "vocab build check show")]
)
def test_every_command_has_help(program, verbs, capsys):
    main = import_module(f"{program}.cli").main
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    assert re.findall(r"^    (\w+)", capsys.readouterr().out, re.M) == verbs.split()
    for verb in verbs.split():
        with pytest.raises(SystemExit, match=r"^0$"):
            main([verb, "--help"])
        assert "example" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["dance"])


def test_the_architecture_page_lists_packages_in_order_and_files_that_exist():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`.*?) \|", text, re.M)
    names = [name.rstrip("/") for row in table for name in re.findall(r"`([^` ]+)`", row)]
    assert set(names) == {*ORDER}
    ranks = [max(map(ORDER.index, re.findall(r"`(\w+)/?`", row))) for row in table]
    assert ranks == sorted(ranks)
    files = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.[a-z]+)?)`", text)
    folders = (ROOT, *(ROOT / package for package in PACKAGES))
    missing = [name for name in files if not any((each / name).exists() for each in folders)]
    assert files and not missing
