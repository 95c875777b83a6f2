"""Embeddings of the lines of a file: values, formats, a stopped run, wrong arguments."""

import errno
import resource

import keras
import numpy as np
import pytest

from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.runs import embeddings
from bert_keras.runs.embeddings import write_embeddings
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abcdef", "##a"))
CONFIG = BertConfig(vocab_size=12, hidden_size=8, num_layers=1, num_heads=2, max_positions=12)
TEXTS = [" ".join("abcdef"[: 1 + number % 6]) + " a" * (number // 6) for number in range(45)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a sentence encoder."""
    folder = tmp_path_factory.mktemp("models") / "model"
    keras.utils.set_random_seed(1)
    embedding = EmbeddingConfig(prompts={"query": "a b "})
    encoder = BertSentenceEncoder(CONFIG, embedding=embedding)
    encoder.save_pretrained(folder, tokenizer=WordPieceTokenizer(VOCABULARY))
    return folder


@pytest.fixture(scope="module")
def expected(model):
    return BertSentenceEncoder.from_pretrained(model).encode(TEXTS)


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """A file of texts, which is encoded in chunks of 8."""
    monkeypatch.setattr(embeddings, "CHUNK_TEXTS", 8)
    monkeypatch.setattr(embeddings, "_ROWS_AT_ONCE", 10)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "lines.txt"


def test_npy(model, lines, expected, tmp_path):
    output = tmp_path / "new" / "vectors.npy"
    assert write_embeddings(lines, output, model=model) == (45, 8)
    vectors = np.load(output, mmap_mode="r")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert [path.name for path in output.parent.iterdir()] == ["vectors.npy"]


def test_parquet(model, lines, expected, tmp_path):
    from pyarrow.parquet import ParquetFile

    output = tmp_path / "vectors.parquet"
    write_embeddings(lines, output, model=model)
    table = ParquetFile(output).read()
    assert table["text"].to_pylist() == TEXTS
    np.testing.assert_allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-6)
    assert str(table.schema.field("vector").type) == "fixed_size_list<element: float>[8]"


def test_dimensions_and_prompt(model, lines, expected, tmp_path):
    assert write_embeddings(lines, tmp_path / "short.npy", model=model, dimensions=3) == (45, 3)
    short = expected[:, :3] / np.linalg.norm(expected[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "short.npy"), short, atol=1e-6)
    write_embeddings(lines, tmp_path / "queries.npy", model=model, prompt="query")
    queries = BertSentenceEncoder.from_pretrained(model).encode([f"a b {each}" for each in TEXTS])
    np.testing.assert_allclose(np.load(tmp_path / "queries.npy"), queries, atol=1e-6)


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
@pytest.mark.parametrize("num_bytes", [0, 100, 3 * 32 + 5])
def test_a_stopped_run_continues(model, lines, tmp_path, monkeypatch, suffix, num_bytes):
    """The new run encodes the missing chunks only, and the file has the same bytes."""
    write_embeddings(lines, tmp_path / f"whole.{suffix}", model=model)
    output, encode, sizes = tmp_path / f"vectors.{suffix}", BertSentenceEncoder.encode, []

    def counted(self, texts, **options):
        if len(sizes) == 3:
            raise KeyboardInterrupt
        sizes.append(len(texts))
        return encode(self, texts, **options)

    monkeypatch.setattr(BertSentenceEncoder, "encode", counted)
    with pytest.raises(KeyboardInterrupt):
        write_embeddings(lines, output, model=model)
    assert sizes == [8, 8, 8]
    with (tmp_path / f"vectors.{suffix}.partial" / "vectors.npy").open("ab") as file:
        file.write(bytes(num_bytes))  # of a chunk that a killed run has not completed
    sizes[:] = [0] * 4
    write_embeddings(lines, output, model=model)
    assert sizes[4:] == [8, 8, 5]
    assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_a_run_that_was_stopped_before_its_first_or_after_its_last_chunk(model, lines, tmp_path):
    write_embeddings(lines, tmp_path / "whole.npy", model=model)
    whole = (tmp_path / "whole.npy").read_bytes()
    for content in (b"", whole[:50], whole):
        output = tmp_path / f"vectors{len(content)}.npy"
        partial = tmp_path / f"{output.name}.partial"
        partial.mkdir()
        (partial / "vectors.npy").write_bytes(content)
        write_embeddings(lines, output, model=model)
        assert output.read_bytes() == whole


def test_a_full_disk(model, lines, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
    try:
        with pytest.raises(OSError) as error:
            write_embeddings(lines, tmp_path / "vectors.npy", model=model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.errno in (errno.EFBIG, errno.ENOSPC)
    assert error.value.filename == str(tmp_path / "vectors.npy")
    write_embeddings(lines, tmp_path / "vectors.npy", model=model)  # after disk space was freed
    assert len(np.load(tmp_path / "vectors.npy")) == 45


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\n\nb\n", {}, "lines.txt, line 2 is blank; expected a text on each line"),
        ("a\nb\n \t\n", {}, "lines.txt, line 3 is blank; expected a text on each line"),
        ("", {}, "lines.txt is empty; expected a text on each line"),
        (b"a\n\xff\n", {}, r"lines.txt, line 2 is not UTF-8 \(byte 0xff at column 1\)"),
        ("a\n", {"dimensions": 9}, "dimensions is 9; expected 1 to 8, the model's size"),
        ("a\n", {"dimensions": 0}, "dimensions is 0; expected 1 to 8, the model's size"),
        ("a\n", {"prompt": "title"}, "no prompt is called 'title'; known: query"),
    ],
)
def test_wrong_texts_and_options(model, tmp_path, content, options, message):
    content = content.encode() if isinstance(content, str) else content
    (tmp_path / "lines.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        write_embeddings(tmp_path / "lines.txt", tmp_path / "v.npy", model=model, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


def test_wrong_paths(model, lines, tmp_path, capsys):
    def run(texts, output, folder=model):
        code = main(["embed", str(texts), "--model", str(folder), "--output", str(output)])
        return code, capsys.readouterr().err.splitlines()[-1].replace(f"{tmp_path}/", "")

    assert run(tmp_path / "none.txt", tmp_path / "v.npy") == (
        2,
        "bert-keras embed: none.txt does not exist; expected a file",
    )
    assert run(lines, tmp_path / "v.txt") == (
        2,
        "bert-keras embed: v.txt ends in '.txt'; expected .npy or .parquet",
    )
    code, message = run(lines, tmp_path / "v.npy", tmp_path / "none")
    assert code == 2 and "none" in message
    (tmp_path / "v.npy").touch()
    code, message = run(lines, tmp_path / "v.npy")
    assert code == 2 and "v.npy exists already; choose another name or remove it" in message


def test_a_stopped_run_of_other_arguments_is_not_continued(model, lines, tmp_path):
    output = tmp_path / "v.npy"
    (tmp_path / "v.npy.partial").mkdir()
    (tmp_path / "v.npy.partial" / "arguments.json").write_text("{}")
    with pytest.raises(InputError, match=r"v\.npy\.partial contains .* of other texts, another"):
        write_embeddings(lines, output, model=model)
    write_embeddings(lines, tmp_path / "x.npy", model=model)


def test_the_command_prints_the_result(model, lines, tmp_path, capsys):
    command = ["embed", str(lines), "--model", str(model), "--output", str(tmp_path / "v.npy")]
    assert main([*command, "--dimensions", "4", "--prompt", "query"]) == 0
    output, error = capsys.readouterr()
    assert output.endswith(f"\n45 embeddings of 4 values: {tmp_path / 'v.npy'}\n")
    assert "embed" in error and "45.0/45.0" in error
