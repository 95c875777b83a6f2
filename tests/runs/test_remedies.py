"""What an error message of a run tells the user to do succeeds."""

import dataclasses
import errno
import json
import shlex
import shutil
import sys
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import _registry

from bert_keras.checkpoints.formats import write_checkpoint
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main as bert_keras
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.locks import locked_folder
from bert_keras.models import (
    BertClassifier,
    BertMaskedLM,
    BertPretrainer,
    BertQuestionAnswering,
    BertSentenceEncoder,
)
from bert_keras.models.pretrained import save_model
from bert_keras.runs import recipes
from bert_keras.runs.evaluate import evaluate
from bert_keras.runs.task_run import TaskRun
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from bert_keras.training.guard import PretrainingWarnings
from bert_keras.training.loop import fit_resumable
from bert_keras.training.optimizer import BertAdamW
from tests.runs.test_continue import checkpoint_of, write_records
from tfrecords_tools.cli import main as bert_tfrecords

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film", "a"))
SIZES = {"hidden_size": 8, "num_layers": 1, "num_heads": 1, "max_positions": 16}
MODELS = {
    "pretrainer": (BertPretrainer, {}),
    "masked-lm": (BertMaskedLM, {}),
    "classifier": (BertClassifier, {}),
    "incomplete": (BertClassifier, {}),
    "answers": (BertQuestionAnswering, {}),
    "short": (BertClassifier, {"max_positions": 8}),
    "causal": (BertMaskedLM, {"is_causal": True}),
    "lstm": (BertClassifier, {"num_lstm_layers": 1}),
    "sentences": (BertSentenceEncoder, {}),
    "wide": (BertMaskedLM, {"hidden_size": 16}),
}
TASKS = {"answers": "squad1", "classifier": "classification"}
LONG = "good " * 12


PROGRAMS = {
    "bert-keras": lambda *words: bert_keras(words),
    "bert-tfrecords": lambda *words: bert_tfrecords(words),
    "cp": lambda *files: shutil.copy(*files) and 0,
    "rm": shutil.rmtree,
    "iconv": lambda old, new: Path(new).write_text(Path(old).read_text("latin-1"), "utf-8") and 0,
}


def run(commands):
    """Runs commands that " && " joins, and returns the exit code of the last one."""
    *first, last = (
        PROGRAMS[name](*words) for name, *words in map(shlex.split, commands.split("&&"))
    )
    assert not any(first)
    return last


def questions(*fields):
    passage = {"context": "a good film", "qas": [{"question": "a film", **each} for each in fields]}
    return json.dumps({"data": [{"title": "", "paragraphs": [passage]}]})


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remedies")
    keras.utils.set_random_seed(1)
    for name, (model, changes) in MODELS.items():
        config = BertConfig(vocab_size=len(VOCABULARY), **SIZES | changes)
        labels = ("neg", "pos") if model is BertClassifier else ()
        metadata = ModelMetadata(
            model=model.__name__,
            config=config,
            lowercase=True,
            max_length=8,
            labels=labels,
            task={"name": TASKS[name], "max_length": 16, "max_question_length": 8}
            if name in TASKS
            else {},
        )
        built = model(config, num_labels=2) if labels else model(config)
        save_model(built, folder / name, metadata=metadata, vocabulary=VOCABULARY)
    (folder / "incomplete" / "vocab.txt").unlink()
    for name in ("other-words", "run/checkpoints", "run/model"):
        shutil.copytree(folder / "masked-lm", folder / name)
    (folder / "other-words" / "vocab.txt").write_text("\n".join((*SPECIAL_TOKENS, *"abcd")))
    VOCABULARY.save(folder / "vocab.txt")
    (folder / "corpus.txt").write_text("\n\n".join(["good film\nbad film\na film\na bad film"] * 4))
    (folder / "films.txt").write_text("good film\nbad film\n")
    (folder / "film.txt").write_text("good film\n")
    rows = "text\tb\tlabel\ngood film\ta\tpos\nbad film\ta\tneg\n"
    (folder / "train.tsv").write_text(rows)
    (folder / "long.tsv").write_text(rows + f"{LONG}\ta\tpos\n")
    (folder / "unknown.tsv").write_text(rows + "a film\ta\tmixed\n")
    (folder / "known.tsv").write_text(rows + "a film\ta\tpos\n")
    (folder / "latin-1.tsv").write_bytes(rows.encode() + b"caf\xe9\ta\tpos\n")
    for name, label in {"tab": "p\tos", "renamed": "pos"}.items():
        examples = [{"text": "film", "label": each} for each in (label, "neg")]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, examples)))
    (folder / "data").mkdir()
    (folder / "old.npy.partial").mkdir()
    (folder / "old.npy.partial" / "arguments.json").write_text("{}")
    for name, text in {"train": rows, "dev": rows, "test": "text\nfilm\n"}.items():
        (folder / "data" / f"{name}.tsv").write_text(text)
    (folder / "pairs.tsv").write_text(f"a\tb\tlabel\n{LONG}\tfilm\tpos\nbad\tfilm\tneg\n")
    (folder / "scores.tsv").write_text("sentence1\tsentence2\tscore\ngood\tbad\t1\na\tgood\t0\n")
    (folder / "train.conll").write_text("good O\nfilm B-ART\n\na O\n")
    answer = {"id": "1", "answers": [{"text": "good", "answer_start": 2}]}
    (folder / "answered.json").write_text(questions(answer))
    (folder / "impossible.json").write_text(
        questions(answer, {"id": "2", "answers": [], "is_impossible": True})
    )
    (folder / "unanswered.json").write_text(questions({"id": "1", "answers": []}))
    build = "bert-tfrecords build {0}/corpus.txt --vocab {0}/vocab.txt --max-length 12 --shards 1 "
    for name, options in {
        "records": "",
        "cased": "--cased",
        "no-vocabulary": "",
        "changed": "",
        "bad-manifest": "",
        "no-manifest": "",
    }.items():
        assert run(f"{build} --output {{0}}/{name} {options}".format(folder)) == 0
    (folder / "no-vocabulary" / "vocab.txt").unlink()
    for name in ("changed", "no-manifest"):
        (folder / name / "vocab.txt").write_text("\n".join((*SPECIAL_TOKENS, "good")))
    (folder / "no-manifest" / "manifest.json").unlink()
    (folder / "bad-manifest" / "manifest.json").write_text("{}")
    return folder


@pytest.fixture
def folder(originals, tmp_path, monkeypatch):
    """The current folder, a copy of the files that the commands read."""
    shutil.copytree(originals, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = "size=L-1_H-8_A-1 batch_size=2"
PRETRAIN = "bert-keras pretrain demo --records records --dry-run"
BUILD = (
    "bert-tfrecords build corpus.txt --vocab vocab.txt --max-length 12 --shards 1 --output new && "
)
NEW = BUILD + PRETRAIN.replace(" records ", " new ")
ALBERT = f"{PRETRAIN} --set {SMALL}".replace("demo", "albert-tiny")
ELECTRA = PRETRAIN.replace("demo", "electra-tiny").replace(" records ", " new ")
FINETUNE = (
    "bert-keras finetune classification --train train.tsv --dev train.tsv --from pretrainer "
    "--output new --recipe demo --set num_epochs=1 max_length=12"
)
SHORT = FINETUNE.replace("pretrainer", "classifier") + " --teacher short"
ASK = (
    FINETUNE.replace("classification", "squad1")
    .replace("train.tsv", "impossible.json")
    .replace("max_length=12", "max_length=16 max_question_length=8")
)
TAG = FINETUNE.replace("classification", "ner").replace("train.tsv", "train.conll")
FEATURES = TAG.replace("finetune ner", "finetune ner-features") + " lstm_units=4"
EVALUATE = "bert-keras evaluate classification --model classifier --data train.tsv"
WINDOWS = (
    "bert-keras evaluate classification --model classifier --data pairs.tsv --set max_length=12 "
    "text_columns=a,b"
)
LONGER = EVALUATE.replace("train.tsv", "long.tsv") + " --set max_length=8"
PAIRS = "bert-keras evaluate sentence-pairs --model sentences --data scores.tsv --set max_length=8"
PREDICT = "bert-keras predict classification --model classifier --data train.tsv --output a.tsv"
TEACH = f"{PRETRAIN} --from masked-lm --set objective=masked-lm --teacher"
CONVERT = "bert-keras convert classifier pretrainer"
INSPECT = "bert-keras inspect masked-lm -o page.html --word film --sentences film.txt"
EMBED = "bert-keras embed film.txt --model classifier --output old.npy"
VECTORS = "bert-keras features --from classifier --texts film.txt --output film.npz"


def case(remedy, command, corrected):
    trains = "finetune" in corrected or "pretrain demo" in corrected or "&&" in corrected
    return pytest.param(
        remedy, command, corrected, id=remedy, marks=[pytest.mark.slow] if trains else []
    )


@pytest.mark.parametrize(
    ("remedy", "command", "corrected"),
    [
        case(
            "set mask_unit=piece max_ngram=1",
            ALBERT,
            f"{ALBERT} mask_unit=piece max_ngram=1",
        ),
        case(
            "bert-tfrecords build --max-predictions 0 writes",
            ALBERT,
            BUILD.replace("--output", "--max-predictions 0 --output")
            + ALBERT.replace(" records ", " new "),
        ),
        case(
            "this objective needs plain ids, which bert-tfrecords build --max-predictions 0 writes",
            f"{PRETRAIN} --set {SMALL} objective=left-to-right",
            f"{NEW} --set {SMALL} objective=left-to-right".replace(
                "--output", "--max-predictions 0 --output"
            ),
        ),
        case(
            "has no distillation; omit the teacher",
            f"{ELECTRA} --teacher masked-lm",
            ELECTRA,
        ),
        case(
            "write the records without --cased",
            f"{PRETRAIN} --from pretrainer".replace(" records ", " cased "),
            f"{PRETRAIN} --from pretrainer",
        ),
        case(
            "write the records with --max-length 8 or less",
            f"{PRETRAIN} --from short",
            f"{NEW} --from short".replace("--max-length 12", "--max-length 8"),
        ),
        case(
            "start from a checkpoint without one, such as the one that was fine-tuned",
            f"{PRETRAIN} --from lstm",
            f"{PRETRAIN} --from pretrainer",
        ),
        case(
            "use the objective with which the checkpoint was trained",
            f"{PRETRAIN} --from causal".replace("records --dry", "new --dry"),
            f"{PRETRAIN} --from causal --set objective=left-to-right".replace(" records ", " new "),
        ),
        case(
            "or set alpha_cosine=0 to compare no hidden states",
            f"{TEACH} wide",
            f"{TEACH} wide".replace("masked-lm --t", "masked-lm alpha_cosine=0 --t"),
        ),
        case("choose another teacher, or set alpha", f"{TEACH} wide", f"{TEACH} masked-lm"),
        case("choose a teacher of the same task", f"{TEACH} classifier", f"{TEACH} masked-lm"),
        case("choose a teacher with the same v", f"{TEACH} other-words", f"{TEACH} masked-lm"),
        case("choose a teacher with the same is_causal", f"{TEACH} causal", f"{TEACH} masked-lm"),
        case("choose another teacher, or a max", SHORT, SHORT.replace("r short", "r classifier")),
        case(
            "write the records with the vocabulary of the checkpoint",
            f"{PRETRAIN} --from other-words",
            f"{NEW} --from other-words".replace("vocab.txt", "other-words/vocab.txt"),
        ),
        case(
            "no tokenizer.json; copy the vocabulary of the records there",
            PRETRAIN.replace(" records ", " no-vocabulary "),
            f"cp vocab.txt no-vocabulary && {PRETRAIN} --set {SMALL}".replace(
                " records ", " no-vocabulary "
            ),
        ),
        case(
            "not the one in manifest.json; copy the vocabulary of the records there",
            PRETRAIN.replace(" records ", " changed "),
            f"cp vocab.txt changed && {PRETRAIN} --set {SMALL}".replace(" records ", " changed "),
        ),
        case(
            "the vocabulary in its folder has 6 tokens; copy the vocabulary of the records there",
            PRETRAIN.replace(" records ", " no-manifest "),
            f"cp vocab.txt no-manifest && {PRETRAIN} --set {SMALL}".replace(
                " records ", " no-manifest "
            ),
        ),
        case(
            "is no manifest of bert-tfrecords; restore it",
            PRETRAIN.replace(" records ", " bad-manifest "),
            f"cp records/manifest.json bad-manifest && {PRETRAIN} --set {SMALL}".replace(
                "--records records", "--records bad-manifest"
            ),
        ),
        case(
            "or a max_length of the task or the records of at most 8",
            SHORT,
            SHORT.replace("max_length=12", "max_length=8"),
        ),
        case(
            "contains a tab or a line end; rename it",
            FINETUNE.replace("train.tsv", "tab.jsonl"),
            FINETUNE.replace("train.tsv", "renamed.jsonl"),
        ),
        case(
            "use the task squad2, and",
            ASK,
            ASK.replace("squad1", "squad2"),
        ),
        case("use context=sentence", f"{TAG} context=document", f"{TAG} context=sentence"),
        case(
            "use layers=last or layers",
            FEATURES,
            f"{FEATURES} layers=last",
        ),
        case(
            "or layers=weighted-sum-all",
            FEATURES,
            f"{FEATURES} layers=weighted-sum-all",
        ),
        case(
            "leave num_lstm_layers out",
            f"{FEATURES} layers=last num_lstm_layers=1",
            f"{FEATURES} layers=last",
        ),
        case(
            "leave layer_rate_decay out",
            f"{FEATURES} layers=last layer_rate_decay=0.9",
            f"{FEATURES} layers=last",
        ),
        case(
            "leave --teacher out",
            f"{FEATURES} layers=last --teacher wide",
            f"{FEATURES} layers=last",
        ),
        case(
            "for predictions a model that was fine-tuned on it",
            "bert-keras evaluate squad1 --model answers --data impossible.json",
            f"{ASK} && bert-keras evaluate squad2 --model new/model --data impossible.json".replace(
                "finetune squad1", "finetune squad2"
            ),
        ),
        case(
            "without answers there is nothing to score, use predict",
            "bert-keras evaluate squad1 --model answers --data unanswered.json",
            "bert-keras predict squad1 --model answers --data unanswered.json --output a.json",
        ),
        case(
            "raise max_length=12",
            f"{WINDOWS} long_texts=mean",
            f"{WINDOWS} long_texts=mean".replace("=12", "=16"),
        ),
        case(
            "or cut long texts with long_texts=truncate",
            f"{WINDOWS} long_texts=mean",
            f"{WINDOWS} long_texts=truncate",
        ),
        case(
            "copy its vocab.txt or tokenizer.json there",
            EVALUATE.replace("classifier", "incomplete") + " --set max_length=8",
            "cp vocab.txt incomplete && "
            + EVALUATE.replace("classifier", "incomplete")
            + " --set max_length=8",
        ),
        case(
            "use this task instead of 'multi-label'",
            EVALUATE.replace("classification", "multi-label"),
            EVALUATE,
        ),
        case(
            "run itself is not a checkpoint; give run/model",
            VECTORS.replace("classifier", "run"),
            VECTORS.replace("classifier", "run/model"),
        ),
        case(
            "raise max_length, cut long texts with",
            LONGER,
            LONGER.replace("=8", "=16"),
        ),
        case(
            "cut long texts with long_texts=truncate, or", LONGER, LONGER + " long_texts=truncate"
        ),
        case("read them in windows with long_texts=mean", LONGER, LONGER + " long_texts=mean"),
        case(
            "long_texts is max, but classifier has mean pooling; use long_texts=mean",
            LONGER + " long_texts=max",
            LONGER + " long_texts=mean",
        ),
        case(
            "pooling is cls, but sentences has mean pooling; use pooling=mean",
            f"{PAIRS} pooling=cls",
            f"{PAIRS} pooling=mean",
        ),
        case(
            "correct the label or remove the row",
            EVALUATE.replace("train.tsv", "unknown.tsv"),
            f"{EVALUATE} && {EVALUATE}".replace("train.tsv", "known.tsv", 1),
        ),
        case(
            "has no labels, so there is nothing to score; use predict",
            EVALUATE.replace("train.tsv", "data") + " --split test",
            PREDICT.replace("train.tsv", "data"),
        ),
        case(
            "convert the file to UTF-8 first",
            PREDICT.replace("train.tsv", "latin-1.tsv"),
            f"iconv latin-1.tsv new.tsv && {PREDICT.replace('train.tsv', 'new.tsv')}",
        ),
        case("is a folder; name a file to write", PREDICT.replace("a.tsv", "records"), PREDICT),
        case(
            "is not a folder; choose another path", PREDICT.replace("a.tsv", "vocab.txt/a"), PREDICT
        ),
        case(
            "exists already; choose another name or", CONVERT, CONVERT.replace("pret", "new-pret")
        ),
        case("other options; remove it or choose ano", EMBED, f"rm old.npy.partial && {EMBED}"),
        case("or choose another output", EMBED, EMBED.replace("old", "new")),
        case("choose another name or remove it first", CONVERT, f"rm pretrainer && {CONVERT}"),
        case(
            "there is nothing to show; give a text",
            "bert-keras inspect masked-lm -o page.html",
            "bert-keras inspect masked-lm good -o page.html",
        ),
        case(
            "or a word and a file of sentences",
            "bert-keras inspect masked-lm -o page.html",
            INSPECT.replace("film.txt", "films.txt"),
        ),
        case(
            "is not valid UTF-8; correct it",
            "bert-keras inspect masked-lm good\udcff -o page.html",
            "bert-keras inspect masked-lm good -o page.html",
        ),
        case(
            "the vocabulary has no tokens for 'cinema'; choose another word",
            INSPECT.replace("word film", "word cinema"),
            INSPECT.replace("film.txt", "films.txt"),
        ),
        case(
            "has no effect without a TEXT; leave it out",
            INSPECT.replace("film.txt", "films.txt") + " --top-k 3",
            INSPECT.replace("film.txt", "films.txt"),
        ),
        case("expected 2 to 100", INSPECT, INSPECT.replace("film.txt", "films.txt")),
        case(
            "give both or none",
            "bert-keras inspect masked-lm -o page.html --word film",
            INSPECT.replace("film.txt", "films.txt"),
        ),
        case(
            "shorten it to at most 8",
            "bert-keras inspect masked-lm a.good.film.a.bad.film -o page.html",
            "bert-keras inspect masked-lm a.good -o page.html",
        ),
        case("expected .npz (NumPy) or", VECTORS.replace(".npz", ".bin"), VECTORS),
        case(
            "or .jsonl (the format",
            VECTORS.replace(".npz", ".bin"),
            VECTORS.replace(".npz", ".jsonl"),
        ),
        case(
            "name a layer twice; expected each layer once",
            f"{VECTORS} --layers 1 -1",
            f"{VECTORS} --layers 1",
        ),
        case(
            "from its last layer; omit --layers (layers)",
            f"{VECTORS} --of texts --layers 1".replace("classifier", "sentences"),
            f"{VECTORS} --of texts".replace("classifier", "sentences"),
        ),
        case("from the end -1 to -2", f"{VECTORS} --layers -3", f"{VECTORS} --layers -2"),
    ],
)
def test_the_remedy_of_an_error_succeeds(folder, follow, remedy, command, corrected):
    if "new --dry" in command:
        assert run(BUILD.replace("--output", "--max-predictions 0 --output").rstrip("& ")) == 0
    follow(command, remedy, corrected)


@pytest.fixture
def follow(capsys):
    """Runs a command that is refused with a remedy, and then the corrected command."""

    def follow(command, remedy, corrected):
        assert run(command) == 2
        assert remedy in capsys.readouterr().err.splitlines()[-1]
        assert run(corrected) == 0

    return follow


@pytest.mark.parametrize(
    ("arguments", "remedy", "corrected"),
    [
        ("--output ''", "received an empty text; give a value", PREDICT),
        ("--outputs a.tsv", "; see bert-keras predict --help", "bert-keras predict --help"),
    ],
)
def test_the_remedy_of_a_wrong_option_succeeds(folder, capsys, arguments, remedy, corrected):
    with pytest.raises(SystemExit):
        run(PREDICT.replace("--output a.tsv", arguments))
    assert remedy in capsys.readouterr().err
    try:
        assert run(corrected) == 0
    except SystemExit as end:
        assert end.code == 0


def test_the_remedies_for_arguments_of_functions_succeed(folder):
    data = {"model": "classifier", "data": "train.tsv", "changes": {"max_length": 8}}
    with pytest.raises(InputError, match="either model or predictions; give one of them"):
        evaluate("classification", data="train.tsv")
    assert evaluate("classification", **data)
    options = {"pretrained": "pretrainer", "max_length": 8}
    with pytest.raises(InputError, match="data has no dev; name the file of each"):
        TaskRun("classification", data={"train": "train.tsv"}, **options)
    TaskRun("classification", data={"train": "train.tsv", "dev": "train.tsv"}, **options)


def test_a_command_succeeds_after_space_was_freed_on_a_full_disk(folder, follow, monkeypatch):
    def no_space(*_, **__):
        monkeypatch.undo()  # the user frees space
        monkeypatch.chdir(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bert_keras.checkpoints.native.write_tensors", no_space)
    convert = "bert-keras convert classifier new"
    follow(convert, "No space left on device; free disk space and run this again", convert)


@pytest.mark.slow
def test_a_training_that_exhausts_the_memory_succeeds_with_a_smaller_batch(
    folder, follow, monkeypatch
):
    def fit(model, batches, settings, **options):
        if settings.batch_size > 1:
            tf.zeros([2**45])
        return fit_resumable(model, batches, settings, **options)

    monkeypatch.setattr("bert_keras.runs.finetune.fit_resumable", fit)
    remedy = "not enough memory; use smaller sizes, such as batch_size, or a machine with more"
    follow(f"{FINETUNE} batch_size=2", remedy, f"{FINETUNE} batch_size=1")


def test_a_remote_corpus_is_read_after_its_driver_was_installed(folder, capsys, monkeypatch):
    """A registered class stands for the driver of the installed package."""

    class GCSFileSystem(LocalFileSystem):
        protocol = "gs"

        @classmethod
        def _strip_protocol(cls, path):
            return str(folder / path.removeprefix("gs://bucket/"))

    check = "bert-tfrecords check gs://bucket/corpus.txt"
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert run(check) == 2
    remedy = 'install the fsspec driver of its scheme, such as "pip install gcsfs" for gs://'
    assert remedy in capsys.readouterr().err
    monkeypatch.setitem(_registry, "gs", GCSFileSystem)
    assert run(check) == 0


@pytest.mark.slow
def test_a_folder_is_used_after_the_run_in_it_has_ended(folder, follow):
    (folder / "new").mkdir()
    other = FINETUNE.replace("--output new", "--output other")
    with locked_folder(folder / "new"):
        follow(FINETUNE, "wait for it or end it, or choose another output", other)
    assert run(FINETUNE) == 0


@pytest.mark.slow
def test_the_remedies_for_the_state_of_a_pretraining_succeed(folder, follow):
    train = (
        "bert-keras pretrain demo --records records --output new --from start "
        "--set batch_size=2 num_steps=2 num_warmup_steps=1 steps_per_log=1"
    )
    other = train.replace("--output new", "--output other")
    shutil.copytree("pretrainer", "start")
    assert run(train) == 0
    (folder / "new" / "scores.json").unlink()
    shutil.copytree("new", "damaged")
    shutil.rmtree("start")
    shutil.copytree("wide", "start")
    remedy = "by another version of bert-keras; choose another output folder to train from the"
    follow(train, remedy, other)
    for state in (folder / "damaged" / "checkpoints").glob("step-*"):
        state.write_bytes(b"")
    follow(
        train.replace("--output new", "--output damaged"),
        "choose another output folder to train from the start",
        train.replace("--output new", "--output third"),
    )


@pytest.mark.slow
def test_the_remedies_for_a_training_state_of_the_last_step_succeed(folder, follow):
    write_records(folder / "other-records")
    for name, step in {"state": 3, "no-state": 0}.items():
        write_checkpoint(checkpoint_of("BertPretrainer", step=step), folder / name, format="google")
    command = (
        "bert-keras pretrain demo --records other-records --dry-run --from state "
        "--set batch_size=4 num_steps=3 num_warmup_steps=1"
    )
    follow(command, "raise num_steps", command.replace("num_steps=3", "num_steps=4"))
    remedy = "or start from a checkpoint without training state"
    follow(command, remedy, command.replace("from state", "from no-state"))


@pytest.mark.slow
def test_a_training_that_diverged_succeeds_with_a_lower_learning_rate(folder, follow):
    follow(
        f"{FINETUNE} num_epochs=2 learning_rate=1e38",
        "start again in another output folder, with a lower learning_rate",
        f"{FINETUNE} num_epochs=2 learning_rate=1e-3".replace("--output new", "--output other"),
    )


@pytest.mark.slow
def test_a_study_in_which_all_runs_diverged_succeeds_with_a_lower_learning_rate(folder, follow):
    follow(
        f"{FINETUNE} num_epochs=2 --learning-rates 1e38",
        "; start again with lower learning rates",
        f"{FINETUNE} num_epochs=2 --learning-rates 1e38 1e-3",
    )
    (diverged, best) = json.loads((folder / "new" / "study.json").read_text())["runs"]
    assert (diverged["scores"], best["folder"]) == ({}, "lr-0.001/seed-1")
    assert (folder / "new" / "best" / "model").is_dir()


@pytest.mark.slow
def test_a_pretraining_that_does_not_learn_succeeds_with_another_learning_rate(folder, capsys):
    settings = (
        "size=L-1_H-32_A-1 batch_size=8 dropout_rate=0 num_steps=100 num_warmup_steps=40 "
        "steps_per_log=50"
    )
    command = "bert-keras pretrain demo --records records --output {} --set {} learning_rate={}"
    remedy = "try another learning_rate, a longer warmup or another initializer_stddev"
    for output, rate, is_warned in (("new", 1e-9, True), ("other", 0.02, False)):
        assert run(command.format(output, settings, rate)) == 0
        assert (remedy in capsys.readouterr().err) == is_warned


def test_local_attention_is_possible_with_another_size_or_left_out(folder, capsys):
    command = (
        "bert-keras pretrain demo --records records --output new --set batch_size=8 num_steps=2 "
        "num_warmup_steps=1 size={} initial_weights={}"
    )
    assert run(command.format("L-1_H-32_A-1", "local-attention")) == 2
    assert "one head; choose another size or initial_weights=normal" in capsys.readouterr().err
    assert run(command.format("L-1_H-32_A-2", "local-attention")) == 0
    assert run(command.format("L-1_H-32_A-1", "normal").replace("new", "other")) == 0


def test_a_smaller_generator_has_normal_initial_weights():
    recipe = recipes.PRETRAIN["electra-tiny"]
    smaller = dataclasses.replace(recipe, generator_size=0.5, initial_weights="normal")
    with pytest.raises(InputError, match="set generator_size=1 or initial_weights=normal"):
        dataclasses.replace(smaller, initial_weights="local-attention")
    dataclasses.replace(smaller, initial_weights="local-attention", generator_size=1)


def test_a_model_in_memory_without_vocabulary_can_be_scored_from_its_folder(folder):
    config = BertConfig(vocab_size=len(VOCABULARY), **SIZES)
    model = BertClassifier(config, num_labels=2)
    options = {"data": "train.tsv", "changes": {"max_length": 8}}
    with pytest.raises(InputError, match=r"save it with model\.save_pretrained\(folder, tokenizer"):
        evaluate("classification", model=model, **options)
    model.save_pretrained("saved", tokenizer=WordPieceTokenizer(VOCABULARY), labels=("neg", "pos"))
    assert evaluate("classification", model="saved", **options)


@pytest.mark.slow
def test_the_remedies_for_a_folder_with_a_run_succeed(folder, follow):
    command = FINETUNE.replace("--set", "--set logs_per_epoch=1")
    assert run(command) == 0
    shutil.copytree("new", "damaged")
    for remedy, refused, corrected in (
        ("continue it with those that it was started with", f"{command} seed=2", command),
        (
            "or choose another output folder",
            f"{command} seed=2",
            f"{command} seed=2".replace("--output new", "--output other"),
        ),
        (
            "choose another folder for a study",
            f"{command} --seeds 2",
            f"{command} --seeds 2".replace("--output new", "--output study"),
        ),
        (
            "choose a new or empty output folder",
            command.replace("--output new", "--output classifier"),
            command.replace("--output new", "--output empty"),
        ),
    ):
        follow(refused, remedy, corrected)
    (folder / "damaged" / "recipe.json").write_text("{")
    damaged = command.replace("--output new", "--output damaged")
    other = command.replace("--output new", "--output third")
    follow(damaged, "restore it, or choose another output folder", other)
    follow(damaged, "; restore it, or choose another", f"cp new/recipe.json damaged && {damaged}")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["evaluations.json", "best.safetensors"])
def test_a_run_without_its_evaluations_is_trained_again_in_another_folder(folder, follow, file):
    command = FINETUNE.replace("num_epochs=1", "num_epochs=2")
    assert run(command) == 0
    shutil.rmtree("new/model")
    (folder / "new" / file).unlink()
    other = command.replace("--output new", "--output other")
    follow(command, "to train again, remove the folder of the run or choose another", other)
    shutil.rmtree("new")
    assert run(command) == 0


@pytest.mark.slow
def test_the_remedies_for_whole_words_of_byte_pairs_succeed(folder, capsys):
    train = "bert-tfrecords vocab corpus.txt --output tokenizer.json --model bpe --size 300"
    build = BUILD.replace("vocab.txt", "tokenizer.json").rstrip("& ")
    pairs = build.replace("--output new", "--objective full-sentences --output")
    assert run(f"{train} && {pairs} plain --max-predictions 0") == 0
    assert run(f"{pairs} words --mask-unit word") == 0
    command = f"{PRETRAIN} --set batch_size=2 mask_unit=word".replace("demo", "roberta-tiny")
    assert run(command.replace(" records ", " plain ")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "set mask_unit=piece, for whole words with records of" in error
    assert "bert-tfrecords build --mask-unit word" in error
    for records in ("plain", "words"):
        corrected = command.replace("unit=word", "unit=piece").replace(" records ", f" {records} ")
        assert run(corrected) == 0


def test_the_records_of_pairs_that_reveal_their_label_can_be_looked_at(folder, capsys):
    model = keras.Model()
    model.compile(BertAdamW())
    model.optimizer.build([])
    warnings = PretrainingWarnings(num_steps=100, num_warmup_steps=1, unigram=lambda: 0.0)
    warnings.set_params({"steps": 20})
    warnings.set_model(model)
    warnings.on_epoch_end(0, {"loss": 1.0, "next_sentence_accuracy": 1.0})
    remedy = "the pairs reveal their label; look at some with bert-tfrecords show"
    assert remedy in capsys.readouterr().err
    assert run("bert-tfrecords show records") == 0
    assert "good film" in capsys.readouterr().out
