"""What an error message of a GLUE submission tells the user to do succeeds."""

import dataclasses

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.downstream.glue import submission
from bert_keras.downstream.glue.rows import ROWS
from bert_keras.models import BertClassifier
from bert_keras.models.pretrained import save_model
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *"abc"))
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=8, num_layers=1, num_heads=1, max_positions=128
)
SPLITS = {"MNLI-mm.tsv": "test_mismatched", "AX.tsv": "ax"}


def test_predict_writes_the_files_that_a_submission_lacks(
    glue_folder, tmp_path, capsys, monkeypatch
):
    """Each test set has the rows of the small files."""
    root, predictions = tmp_path / "glue", tmp_path / "predictions"
    submit = ["submission", str(predictions), "--output", str(tmp_path / "glue.zip")]
    assert main(submit) == 2
    message = capsys.readouterr().err
    assert "write them with bert-keras predict for cola, mnli, mrpc," in message
    assert "(MNLI-mm.tsv with --split test_mismatched, AX.tsv with --split ax)" in message
    counts = dict.fromkeys(submission.FILES, 1) | {"CoLA.tsv": 2}
    for name, row in ROWS.items():
        rows = {file: counts[file] for file in row.num_test_rows}
        monkeypatch.setitem(submission.ROWS, name, dataclasses.replace(row, num_test_rows=rows))
        metadata = ModelMetadata(
            model="BertClassifier",
            config=CONFIG,
            lowercase=True,
            max_length=128,
            labels=row.labels,
            task={"name": name},
        )
        model, folder = BertClassifier(CONFIG, num_labels=len(row.labels)), tmp_path / name
        save_model(model, folder, metadata=metadata, vocabulary=VOCABULARY)
        for file in rows:
            split = ["--split", SPLITS.get(file, "test"), "--output", str(predictions / file)]
            predict = ["predict", name, "--model", str(folder), "--data", str(root)]
            assert main([*predict, *split]) == 0
    assert main(submit) == 0
