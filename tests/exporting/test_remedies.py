"""What an error message of an export recommends succeeds."""

import contextlib
import dataclasses
import json
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.formats import open_text_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.distribution import numerics
from bert_keras.errors import InputError
from bert_keras.exporting.export import export
from bert_keras.exporting.serving_ops import check_ops
from bert_keras.exporting.variants import export_variant, int8
from bert_keras.exporting.variants.bfloat16 import Bfloat16
from bert_keras.exporting.variants.litert import litert_run
from bert_keras.exporting.variants.variant import Float16
from bert_keras.exporting.verify import run_requests
from bert_keras.models import (
    MODELS,
    BertClassifier,
    BertMaskedLM,
    BertMultipleChoice,
    BertReplacedTokenPretrainer,
    load_model,
)
from bert_keras.models.pretrained import save_model
from bert_keras.text.fast_tokenizer import rules_vocabulary
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary
from tests.exporting.variants.fine_tuned import VOCABULARY, fine_tuned

pytestmark = pytest.mark.usefixtures("not_verified")
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
)
TOKENIZER = WordPieceTokenizer(VOCABULARY)
EXPORT = "export {}/model x --to {}/saved"
VARIANT = EXPORT + " --variant float16 --data {}/dev.tsv"
FOREIGN = VARIANT.replace("/model", "/foreign")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A fine-tuned classifier, a copy without its task, a causal language model and examples."""
    folder = tmp_path_factory.mktemp("remedies")
    model_folder, _ = fine_tuned("classification", folder)
    checkpoint, model = open_text_checkpoint(model_folder), load_model(model_folder)
    metadata = dataclasses.replace(checkpoint.metadata, task={}, max_length=14)
    save_model(model, folder / "foreign", metadata=metadata, vocabulary=VOCABULARY)
    causal = BertMaskedLM(dataclasses.replace(CONFIG, is_causal=True))
    causal.save_pretrained(folder / "causal", tokenizer=TOKENIZER)
    rows = f"text\tlabel\n{'good ' * 30}\tyes\nbob met\tno\n"
    (folder / "long.tsv").write_text(rows, "utf-8")
    return folder


@pytest.fixture
def run(root):
    """Runs a command and returns its exit code."""
    return lambda command: main(command.replace("{}", str(root)).split())


@pytest.mark.parametrize(
    ("command", "remedy", "corrected"),
    [
        (EXPORT.replace(" x ", " a/x "), "without '/' .*--to sets the parent", EXPORT + "/a"),
        (EXPORT + " --version=-1", "expected a path such as saved_mode", EXPORT + " --version=7"),
        (EXPORT + " --variant float16", "--variant requires --data", VARIANT),
        (VARIANT + " --accept-loss nan", "points, such as 0.5", VARIANT + " --accept-loss 0.5"),
        (FOREIGN, "set it with --task or task=", FOREIGN + " --task classification"),
    ],
)
@pytest.mark.usefixtures("fake_exports")
def test_the_corrected_command_succeeds(run, refusal, measured, command, remedy, corrected):
    measured()
    assert re.search(remedy, refusal(command))
    assert run(corrected) == 0


@pytest.mark.parametrize("command", [VARIANT, FOREIGN + " --task classification"])
@pytest.mark.usefixtures("fake_exports")
def test_a_variant_is_scored_on_long_texts(run, measured, command):
    measured()
    assert run(command.replace("dev.tsv", "long.tsv")) == 0


@pytest.mark.usefixtures("fake_exports")
def test_the_encoder_of_a_model_without_signatures_is_exported(run, refusal, root):
    model = BertReplacedTokenPretrainer(dataclasses.replace(CONFIG, has_pooler=False))
    model.save_pretrained(root / "pair", tokenizer=TOKENIZER)
    message = refusal(EXPORT.replace("/model", "/pair"))
    assert message.endswith("; convert it with bert-keras convert --model BertEncoder")
    assert run("convert {}/pair {}/discriminator --model BertEncoder") == 0
    assert run(EXPORT.replace("/model x", "/discriminator discriminator")) == 0


@pytest.mark.usefixtures("fake_exports")
def test_the_stated_loss_can_be_accepted(run, refusal, measured, root):
    scores = (50.0, 50 - 100 / 48)
    measured(scores=scores)
    message = refusal(VARIANT)
    assert "; choose another variant, or set --accept-loss (max_score_loss) to the" in message
    (loss,) = re.findall(r"loses (\S+) points", message)
    measured(scores=scores)
    assert run(f"{VARIANT} --accept-loss {loss}") == 0
    measured(scores=scores)
    options = {"data": root / "dev.tsv", "max_score_loss": float(loss)}
    with pytest.raises(InputError, match="a variant; leave them out or choose a variant"):
        export(root / "model", root / "saved" / "x" / "98", **options)
    export(root / "model", root / "saved" / "x" / "98")
    options["variant"] = "float16"
    export(root / "model", root / "saved" / "x" / "99", **options)
    measured()
    assert run(VARIANT.replace("float16", "int8")) == 0


@pytest.mark.usefixtures("fake_exports")
def test_a_variant_that_saves_nothing_leaves_float32_and_other_variants(run, refusal, measured):
    measured(sizes=(100, 100))
    assert refusal(VARIANT).endswith("serve float32, or choose another variant")
    assert run(EXPORT) == 0
    measured()
    assert run(VARIANT.replace("float16", "int8")) == 0


def test_a_variant_of_a_sentence_encoder_is_scored_by_pairs(
    tmp_path, measured, fake_exports, monkeypatch
):
    cosines = iter((0.95, 1.0))
    monkeypatch.setattr(export_variant, "mean_cosine", lambda *_, **__: next(cosines))
    model_folder, data = fine_tuned("sentence-pairs", tmp_path)
    options = {"variant": "float16", "data": data}
    remedy = "; set --task sentence-pairs, and --data to pairs of texts with scores"
    with pytest.raises(InputError, match=re.escape(remedy)):
        export(model_folder, tmp_path / "saved" / "1", task="retrieval", **options)
    measured()
    with pytest.raises(InputError, match="; serve float32, or choose another variant"):
        export(model_folder, tmp_path / "saved" / "1", task="sentence-pairs", **options)
    measured()
    export(model_folder, tmp_path / "saved" / "1", **options)


def test_another_variant_is_written_on_a_machine_without_bfloat16(root, monkeypatch, tmp_path):
    monkeypatch.setattr(numerics, "PROCESSORS", tmp_path / "cpuinfo")
    with pytest.raises(InputError, match="AVX512-BF16 or AMX do; choose another variant"):
        Bfloat16(load_model(root / "model"))
    assert Float16(load_model(root / "model"))


@pytest.mark.parametrize(
    ("product", "remedy"),
    [
        (ValueError, r"no int8 matrix product .* for this machine; choose another variant"),
        (0, "as processors with VNNI do; choose another variant"),
    ],
)
def test_another_variant_is_written_on_a_machine_without_int8(root, monkeypatch, product, remedy):
    def multiply(*operands, **scales):
        if product:
            raise product
        return tf.zeros([64, 64])

    monkeypatch.setattr(int8, "_product", multiply)
    with pytest.raises(InputError, match=remedy):
        int8.Int8(load_model(root / "model"))
    assert Float16(load_model(root / "model"))


@pytest.mark.slow
def test_a_litert_model_is_written_without_serving_config_and_runs(run, refusal, root):
    command = VARIANT.replace("float16", "litert").replace(" x ", " lite ") + " --accept-loss 50"
    message = refusal(command + " --serving-config {}/config")
    assert re.search("--serving-config cannot .*; run it with a LiteRT interpreter", message)
    assert run(command) == 0
    rows = {name: np.ones((1, 7), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    assert litert_run(root / "saved" / "lite" / "1")(rows)["probabilities"].shape == (1, 2)


def test_the_encoder_of_a_causal_model_is_exported(run, refusal):
    message = refusal(EXPORT.replace("/model", "/causal"))
    (command,) = re.findall("export its encoder, which bert-keras (convert SRC .*) writes", message)
    assert run(command.replace("SRC", "{}/causal").replace("DST", "{}/encoder")) == 0
    assert run(EXPORT.replace("/model", "/encoder")) == 0


@pytest.mark.slow
def test_a_fine_tuned_causal_model_is_exported(run, refusal):
    assert "; fine-tune it, or" in refusal(EXPORT.replace("/model", "/causal"))
    finetune = (
        "finetune classification --from {}/causal --train {}/dev.tsv --dev {}/dev.tsv "
        "--output {}/run --recipe demo --set max_length=16"
    )
    assert run(finetune) == 0
    assert run(EXPORT.replace("/model", "/run/model")) == 0


def half_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        return BertClassifier(CONFIG, num_labels=2)
    finally:
        keras.config.set_dtype_policy("float32")


def test_weights_of_a_half_precision_model_are_exported_from_a_float32_model(tmp_path):
    model = half_precision()
    with pytest.raises(InputError, match="load its weights into a float32 model"):
        model.export(tmp_path / "x" / "1", tokenizer=TOKENIZER)
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    BertClassifier.from_pretrained(tmp_path / "model").export(tmp_path / "x" / "1")


@pytest.mark.parametrize(
    ("wrong", "remedy", "right"),
    [
        ({}, "give its tokenizer: tokenizer=", {"tokenizer": TOKENIZER}),
        (
            {"tokenizer": WordPieceTokenizer(Vocabulary((*VOCABULARY.tokens, "new")))},
            "use the vocabulary that the model was trained with",
            {"tokenizer": TOKENIZER},
        ),
    ],
)
def test_a_model_in_memory_is_exported_with_its_tokenizer(tmp_path, wrong, remedy, right):
    model = BertClassifier(CONFIG, num_labels=2)
    with pytest.raises(InputError, match=remedy):
        model.export(tmp_path / "x" / "1", **wrong)
    model.export(tmp_path / "x" / "1", **right)


def test_another_checkpoint_of_a_diverged_training_is_exported(tmp_path):
    model = BertClassifier(CONFIG, num_labels=2)
    for bias, remedy in ([0.5, np.nan], "diverged; export another checkpoint"), ([0.5, 0.5], None):
        model.weights[-1].assign(bias)
        with pytest.raises(InputError, match=remedy) if remedy else contextlib.nullcontext():
            model.export(tmp_path / "x" / "1", tokenizer=TOKENIZER)


def test_a_model_folder_contains_its_labels(tmp_path, root):
    with pytest.raises(InputError, match="a model folder contains its own"):
        export(root / "model", tmp_path / "x" / "1", labels=("no", "yes"))
    with pytest.raises(InputError, match="variant float16 needs data"):
        export(root / "model", tmp_path / "x" / "1", variant="float16")
    export(root / "model", tmp_path / "x" / "1")


def without_prefix(rules):
    rules["pre_tokenizer"]["add_prefix_space"] = False


@pytest.mark.slow
@pytest.mark.parametrize("format", ["bert-keras", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("family", "model", "setting", "correct", "remedy", "fields"),
    [
        (
            "roberta",
            "BertQuestionAnswering",
            "add_prefix_space",
            without_prefix,
            r"; set it to false in tokenizer\.json or.* tokenizer_config\.json",
            {"position_offset": 2, "num_segments": 1},
        ),
    ],
)
def test_a_corrected_tokenizer_is_exported(
    subwords, tmp_path, format, family, model, setting, correct, remedy, fields
):
    vocabulary = rules_vocabulary(read_rules(subwords[family], {setting: True}) or "")
    config = dataclasses.replace(CONFIG, vocab_size=len(vocabulary), max_positions=80, **fields)
    labels = ("no", "yes") if model == "BertClassifier" else ()
    metadata = ModelMetadata(
        model=model, config=config, lowercase=True, max_length=78, labels=labels
    )
    folder, instance = tmp_path / "model", MODELS[model].from_metadata(metadata)
    save_model(instance, folder, metadata=metadata, vocabulary=vocabulary)
    if format != "bert-keras":
        write_checkpoint(
            open_text_checkpoint(folder), folder := tmp_path / "hf", format="huggingface"
        )
    rules = folder / "tokenizer.json"
    if is_config := format == "tokenizer_config.json":
        rules.unlink()
        shutil.copytree(subwords[family], folder, dirs_exist_ok=True)
        rules = folder / format
        rules.write_text(json.dumps({**json.loads(rules.read_text("utf-8")), setting: True}))
    with pytest.raises(InputError, match=remedy):
        export(folder, tmp_path / "x" / "1")
    document = json.loads(rules.read_text("utf-8"))
    if is_config:
        document[setting] = False
    else:
        correct(document)
    rules.write_text(json.dumps(document), "utf-8")
    export(folder, tmp_path / "x" / "1")


def test_a_graph_without_the_refused_op_is_accepted(tmp_path):
    def save(name, function):
        signature = tf.function(function, input_signature=[tf.TensorSpec([], tf.string)])
        folder, module = tmp_path / name, tf.Module()
        tf.saved_model.save(module, str(folder), signatures=signature.get_concrete_function())
        return folder

    with pytest.raises(InputError, match="build the model without these ops"):
        check_ops(save("wrong", lambda image: {"y": tf.raw_ops.DecodeJxl(contents=image)}))
    check_ops(save("right", lambda image: {"y": tf.io.decode_png(image)}))


def test_a_request_with_choices_is_answered(tmp_path):
    BertMultipleChoice(CONFIG).save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    folder = export(tmp_path / "model", tmp_path / "swag" / "1")

    def answers(choices):
        inputs = {"context": ["bob met"], "choices": np.array([choices], object)}
        return run_requests(folder, [{"signature": "serving_default", "inputs": inputs}])

    with pytest.raises(tf.errors.InvalidArgumentError, match="is empty; send at least one"):
        answers([])
    assert answers(["anna"])
