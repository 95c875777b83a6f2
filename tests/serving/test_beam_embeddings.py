"""The Beam job writes the embeddings of an exported model; wrong arguments."""

import numpy as np
import pytest

from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.serving.beam_embeddings import embed_on_beam
from tests.serving.test_embeddings_api import vector
from tests.serving.text_models import cross_encoder, embedder

pytestmark = pytest.mark.extra


@pytest.fixture(scope="module", autouse=True)
def beam():
    return pytest.importorskip("apache_beam", reason="needs the extra beam")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """saved_models/letters, and files with 150 texts, blank lines and bytes that are no UTF-8."""
    folder = tmp_path_factory.mktemp("beam")
    embedder(folder / "letters" / "1")
    cross_encoder(folder / "pairs" / "1")
    lines = [f"{'a' * number} é".encode() for number in range(150)]
    (folder / "lines-1.txt").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines[:70]))
    (folder / "lines-2.txt").write_bytes(b"\n".join([*lines[70:], b"", b"\xff", b"  ", b""]))
    return folder


def rows(folder):
    import pyarrow.parquet as pq

    table = pq.read_table(folder)
    return dict(zip(table["text"].to_pylist(), table["vector"].to_pylist(), strict=True))


def test_the_vectors_of_several_files(folder, tmp_path, capsys):
    command = ["embed", f"{folder}/lines-*.txt", "--model", f"{folder}/letters"]
    command += ["--output", f"{tmp_path}/out", "--beam", "--runner=DirectRunner"]
    assert main(command) == 0
    assert capsys.readouterr().out == (
        f"embeddings: 150; blank lines: 2; lines that are not UTF-8: 1\n{tmp_path}/out\n"
    )
    found = rows(tmp_path / "out")
    assert len(found) == 150
    for text, values in found.items():
        np.testing.assert_allclose(values, vector(text), rtol=1e-5)


def test_dimensions(folder, tmp_path):
    counts = embed_on_beam(
        f"{folder}/lines-1.txt", tmp_path / "out", model=folder / "letters", dimensions=2
    )
    assert counts == {"embeddings": 70, "blank lines": 0, "lines that are not UTF-8": 0}
    for text, values in rows(tmp_path / "out").items():
        np.testing.assert_allclose(values, vector(text, 2), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"texts": "none.txt"}, r"none.txt cannot be read: No files found"),
        ({"model": "pairs"}, r"pairs/1 returns no embeddings of texts; expected an exported"),
        ({"model": "none"}, r"none is not a folder; expected saved_models/NAME"),
        ({"dimensions": 5}, r"dimensions is 5; expected 1 to 4, the model's size"),
        ({"output": "letters"}, r"letters exists already; choose another name or remove it"),
        ({"pipeline_options": ["--runner=Nope"]}, r"with the options --runner=Nope \("),
    ],
)
def test_wrong_arguments(folder, tmp_path, changes, message):
    arguments = {"texts": "lines-1.txt", "model": "letters", "output": tmp_path / "out", **changes}
    for name in ("texts", "model", "output"):
        arguments[name] = str(folder / arguments[name])
    with pytest.raises(InputError, match=message):
        embed_on_beam(arguments.pop("texts"), arguments.pop("output"), **arguments)
    assert not (tmp_path / "out").exists()
