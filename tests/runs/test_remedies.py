"""What an error message of a run tells the user to do succeeds."""

import json
import shutil

import keras
import pytest

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main as bert_keras
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models import BertClassifier, BertMaskedLM, BertPretrainer, BertQuestionAnswering
from bert_keras.models.pretrained import save_model
from bert_keras.runs.evaluate import evaluate
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
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
    "one-segment": (BertPretrainer, {"num_segments": 1}),
    "wide": (BertMaskedLM, {"hidden_size": 16}),
}
TASKS = {"answers": "squad1", "classifier": "classification"}
LONG = "good " * 12


def copy(source, destination):
    shutil.copy(source, destination)
    return 0


PROGRAMS = {
    "bert-keras": lambda *words: bert_keras(words),
    "bert-tfrecords": lambda *words: bert_tfrecords(words),
    "cp": copy,
}


def run(commands):
    """Runs commands that " && " joins, and returns the exit code of the last one."""
    *first, last = (PROGRAMS[name](*words) for name, *words in map(str.split, commands.split("&&")))
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
    VOCABULARY.save(folder / "vocab.txt")
    (folder / "corpus.txt").write_text("\n\n".join(["good film\nbad film\na film\na bad film"] * 4))
    (folder / "films.txt").write_text("good film\nbad film\n")
    (folder / "film.txt").write_text("good film\n")
    (folder / "train.tsv").write_text("text\tb\tlabel\ngood film\ta\tpos\nbad film\ta\tneg\n")
    (folder / "nothing.tsv").write_text("text\tlabel\nfilm\t\n")
    (folder / "pairs.tsv").write_text(f"a\tb\tlabel\n{LONG}\tfilm\tpos\nbad\tfilm\tneg\n")
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
        "other-words": "",
        "bad-manifest": "",
    }.items():
        assert run(f"{build} --output {{0}}/{name} {options}".format(folder)) == 0
    (folder / "no-vocabulary" / "vocab.txt").unlink()
    (folder / "other-words" / "vocab.txt").write_text("\n".join((*SPECIAL_TOKENS, "good")))
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
INSPECT = "bert-keras inspect masked-lm -o page.html --word film --sentences film.txt"
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
            "left-to-right needs plain ids, which bert-tfrecords build --max-predictions 0 writes",
            f"{PRETRAIN} --set {SMALL} objective=left-to-right",
            f"{NEW} --set {SMALL} objective=left-to-right".replace(
                "--output", "--max-predictions 0 --output"
            ),
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
            "a checkpoint without one, such as the one that was fine-tuned",
            f"{PRETRAIN} --from lstm",
            f"{PRETRAIN} --from pretrainer",
        ),
        case(
            "use the objective with which the checkpoint was trained",
            f"{PRETRAIN} --from causal".replace("records --dry", "new --dry"),
            f"{PRETRAIN} --from causal --set objective=left-to-right".replace(" records ", " new "),
        ),
        case(
            "write records without pairs: bert-tfrecords build --objective full-sentences",
            f"{PRETRAIN} --from one-segment",
            f"{NEW} --from one-segment".replace("--output", "--objective full-sentences --output"),
        ),
        case(
            "or set alpha_cosine=0 to compare no hidden states",
            f"{PRETRAIN} --from masked-lm --teacher wide --set objective=masked-lm",
            f"{PRETRAIN} --from masked-lm --teacher wide --set objective=masked-lm alpha_cosine=0",
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
            PRETRAIN.replace(" records ", " other-words "),
            f"cp vocab.txt other-words && {PRETRAIN} --set {SMALL}".replace(
                " records ", " other-words "
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
            "or a task with one text per example",
            f"{FINETUNE} text_columns=text,b".replace("pretrainer", "one-segment"),
            FINETUNE.replace("pretrainer", "one-segment"),
        ),
        case(
            "use the task squad2",
            ASK,
            ASK.replace("squad1", "squad2"),
        ),
        case("use context=sentence", f"{TAG} context=document", f"{TAG} context=sentence"),
        case(
            "use layers=last",
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
        case("expected 2 to 100", INSPECT, INSPECT.replace("film.txt", "films.txt")),
        case(
            "give both or none",
            "bert-keras inspect masked-lm -o page.html --word film",
            INSPECT.replace("film.txt", "films.txt"),
        ),
        case(
            "the model has one segment; give one text",
            "bert-keras inspect one-segment good bad -o page.html",
            "bert-keras inspect one-segment good -o page.html",
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
        case("from the end -1 to -2", f"{VECTORS} --layers -3", f"{VECTORS} --layers -2"),
    ],
)
def test_the_remedy_of_an_error_succeeds(folder, capsys, remedy, command, corrected):
    if "new --dry" in command:
        assert run(BUILD.replace("--output", "--max-predictions 0 --output").rstrip("& ")) == 0
    assert run(command) == 2
    assert remedy in capsys.readouterr().err.splitlines()[-1]
    assert run(corrected) == 0


def test_a_model_in_memory_without_vocabulary_can_be_scored_from_its_folder(folder):
    config = BertConfig(vocab_size=len(VOCABULARY), **SIZES)
    model = BertClassifier(config, num_labels=2)
    options = {"data": "train.tsv", "changes": {"max_length": 8}}
    with pytest.raises(InputError, match=r"save it with model\.save_pretrained\(folder, tokenizer"):
        evaluate("classification", model=model, **options)
    model.save_pretrained("saved", tokenizer=WordPieceTokenizer(VOCABULARY), labels=("neg", "pos"))
    assert evaluate("classification", model="saved", **options)


@pytest.mark.slow
def test_the_remedies_for_a_folder_with_a_run_succeed(folder, capsys):
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
        assert run(refused) == 2
        assert remedy in capsys.readouterr().err.splitlines()[-1]
        assert run(corrected) == 0
    (folder / "damaged" / "recipe.json").write_text("{")
    assert run(command.replace("--output new", "--output damaged")) == 2
    assert "; restore it, or choose another" in capsys.readouterr().err.splitlines()[-1]
    restored = f"cp new/recipe.json damaged && {command}"
    assert run(restored.replace("--output new", "--output damaged")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("file", ["evaluations.json", "best.safetensors"])
def test_a_run_without_its_evaluations_is_trained_again_in_another_folder(folder, capsys, file):
    command = FINETUNE.replace("num_epochs=1", "num_epochs=2")
    assert run(command) == 0
    shutil.rmtree("new/model")
    (folder / "new" / file).unlink()
    assert run(command) == 2
    assert "remove the folder of the run or choose" in capsys.readouterr().err.splitlines()[-1]
    assert run(command.replace("--output new", "--output other")) == 0
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
