import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.checkpoints.pretrained import save_model
from bert_keras.errors import InputError
from bert_keras.exporting.model_folder import text_model
from bert_keras.exporting.variants import export_variant as export_variant_module
from bert_keras.exporting.variants import measuring
from bert_keras.exporting.variants.export_variant import export_variant
from bert_keras.exporting.variants.int8 import check_kernel
from bert_keras.exporting.variants.litert import litert_run
from bert_keras.exporting.verify import run_requests
from bert_keras.exporting.version_folder import METADATA
from bert_keras.models import BertEncoder, load_model
from tests.exporting.variants.fine_tuned import fine_tuned

INPUTS = {name: np.full((2, 7), name != "segment_ids", np.int32)
          for name in ("input_ids", "input_mask", "segment_ids")}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fine_tuned("classification", tmp_path_factory.mktemp("run"))


@pytest.fixture
def int8_if_available():
    """Skips the test on a processor without exact int8 products."""

    def check():
        try:
            check_kernel()
        except InputError as error:
            pytest.skip(str(error))

    return check


@pytest.fixture(autouse=True)
def single_measurement(monkeypatch, not_verified):
    monkeypatch.setattr(measuring, "_SECONDS", 0)


def test_a_variant_is_measured_and_written(tmp_path, run, measured, capsys):
    measured(scores=(90.0, 89.75))
    model_folder, data = run
    written = export_variant(
        text_model(model_folder), tmp_path / "name" / "3", variant="float16", data=str(data)
    )
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["3"]
    assert capsys.readouterr().out.splitlines() == [
        "           on disk  1 x 5 tokens  accuracy",
        "float32  100 bytes     1000.0 ms     90.00",
        "float16   50 bytes      500.0 ms     89.75",
        "             0.50x         0.50x     -0.25",
    ]
    metadata = json.loads((written / METADATA).read_text("utf-8"))
    assert metadata["card"]["model"] == "BertClassifier"
    assert metadata["variant"] == {
        "name": "float16",
        "figures": {
            "float32": {"num_bytes": 100, "seconds": {"1 x 5 pieces": 1.0}, "score": 90.0},
            "float16": {"num_bytes": 50, "seconds": {"1 x 5 pieces": 0.5}, "score": 89.75},
        },
        "scored_on": {"task": "classification", "metric": "accuracy", "examples": 48},
    }
    (served,) = run_requests(
        written, [{"signature": "serving_default", "inputs": {"text": ["a film"]}}]
    )
    assert served["labels"] == [["no", "yes"]]


@pytest.mark.usefixtures("fake_exports")
def test_a_variant_that_loses_too_much_is_refused_unless_accepted(tmp_path, run, measured):
    model_folder, data = run
    settings = {"variant": "int8", "data": str(data)}
    measured(scores=(90.0, 88.0))
    with pytest.raises(InputError, match=r"int8 loses 2.00 points of accuracy, more than 0.5, and"):
        export_variant(text_model(model_folder), tmp_path / "name" / "1", **settings)
    assert not (tmp_path / "name" / "1").exists()
    measured(scores=(90.0, 88.0))
    export_variant(text_model(model_folder), tmp_path / "name" / "1", **settings, max_score_loss=2)
    with pytest.raises(InputError, match="accept-loss is -1; expected a number of points"):
        export_variant(
            text_model(model_folder), tmp_path / "name" / "2", **settings, max_score_loss=-1
        )


@pytest.mark.usefixtures("fake_exports")
@pytest.mark.parametrize(
    ("variant", "figures", "message"),
    [
        ("int8", {"times": (1.0, 1.0)}, "takes 1.00x of float32's time on this machine"),
        ("float16", {"sizes": (100, 98)}, "takes 0.98x of float32's bytes"),
    ],
)
def test_a_variant_that_saves_nothing_is_refused(
    tmp_path, run, measured, variant, figures, message
):
    measured(**figures)
    model_folder, data = run
    with pytest.raises(InputError, match=message):
        export_variant(
            text_model(model_folder), tmp_path / "name" / "1", variant=variant, data=str(data)
        )


@pytest.mark.usefixtures("fake_exports")
def test_a_killed_process_leaves_only_folders_that_the_next_one_deletes(
    tmp_path, run, measured, monkeypatch
):
    measured()
    model_folder, data = run
    unfinished = []

    def score(*_, **__):
        unfinished.extend(path.name for path in (tmp_path / "name").iterdir())
        return 90.0

    monkeypatch.setattr(export_variant_module, "score", score)
    export_variant(
        text_model(model_folder), tmp_path / "name" / "1", variant="float16", data=str(data)
    )
    assert unfinished
    assert all(name.startswith(".1.") and name.endswith(".part") for name in unfinished)
    assert [path.name for path in (tmp_path / "name").iterdir()] == ["1"]


@pytest.mark.slow
def test_a_litert_model_approximates_the_model_for_any_batch_size(tmp_path, run, capfd):
    model_folder, data = run
    written = export_variant(
        text_model(model_folder),
        tmp_path / "name" / "1",
        variant="litert",
        data=str(data),
        max_score_loss=5,
    )
    names = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert names == {"model.tflite", "assets/vocab.txt", METADATA}
    expected = tf.nn.softmax(load_model(model_folder)(INPUTS, training=False)).numpy()
    run_litert = litert_run(written)
    assert "TensorFlow Lite" not in capfd.readouterr().err
    for rows in (2, 1):
        predictions = run_litert({name: array[:rows] for name, array in INPUTS.items()})
        assert list(predictions) == ["probabilities"]
        np.testing.assert_allclose(predictions["probabilities"], expected[:rows], atol=0.05)


def test_models_without_a_scoring_task_are_refused(tmp_path, run):
    model_folder, data = run

    def export(model_folder=model_folder, **settings):
        settings = {"variant": "float16", "data": str(data), **settings}
        return export_variant(text_model(model_folder), tmp_path / "name" / "1", **settings)

    with pytest.raises(InputError, match="no variant is called 'int4'; known: float16, bfloat16"):
        export(variant="int4")
    checkpoint = open_text_checkpoint(model_folder)
    model, vocabulary = load_model(model_folder), checkpoint.vocabulary
    metadata = dataclasses.replace(checkpoint.metadata, task={})
    save_model(model, tmp_path / "other", metadata=metadata, vocabulary=vocabulary)
    with pytest.raises(InputError, match="does not state the task that it was fine-tuned on; set"):
        export(tmp_path / "other")
    encoder = BertEncoder(metadata.config)
    encoder.save_pretrained(tmp_path / "encoder", tokenizer=model.tokenizer)
    with pytest.raises(InputError, match="is a BertEncoder, which no task scores; expected"):
        export(tmp_path / "encoder")
    with pytest.raises(InputError, match="no task is called 'sst2-of-mine'; known: "):
        export(task="sst2-of-mine")


@pytest.mark.parametrize("variant", ["float16", pytest.param("int8", marks=pytest.mark.slow)])
def test_a_variant_of_a_sentence_encoder_has_its_embeddings(
    tmp_path, measured, int8_if_available, variant
):
    if variant == "int8":
        int8_if_available()
    measured(scores=(80.0, 79.9))
    model_folder, data = fine_tuned("sentence-pairs", tmp_path)
    folder = tmp_path / "name" / "1"
    model = text_model(model_folder)
    with pytest.raises(InputError, match="retrieval does not score a variant of a BertSentenceEn"):
        export_variant(model, folder, variant=variant, data=str(data), task="retrieval")
    written = export_variant(model, folder, variant=variant, data=str(data))
    figures = json.loads((written / METADATA).read_text("utf-8"))["variant"]
    assert 0.99 <= figures["cosine"] <= 1.000001
    assert figures["scored_on"]["task"] == "sentence-pairs"
    request = {"signature": "serving_default", "inputs": {"text": ["a film", "bob met anna"]}}
    (served,) = run_requests(written, [request])
    expected = load_model(model_folder).encode(request["inputs"]["text"])
    assert (np.array(served["embedding"]) * expected).sum(axis=1).min() >= 0.98


def test_other_embeddings_are_refused(tmp_path, measured, monkeypatch):
    monkeypatch.setattr(export_variant_module, "mean_cosine", lambda *_, **__: 0.95)
    measured()
    model_folder, data = fine_tuned("sentence-pairs", tmp_path)
    folder = tmp_path / "name" / "1"
    with pytest.raises(InputError, match=r"float16 have the mean cosine 0.9500 .* than 0.99, and"):
        export_variant(text_model(model_folder), folder, variant="float16", data=str(data))
    assert not folder.exists()
