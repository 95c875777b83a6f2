"""`evaluate` scores a model in memory and its folder alike."""

from bert_keras import BertClassifier, WordPieceTokenizer
from bert_keras.runs.evaluate import evaluate
from tests.factories import random_model, tiny_vocabulary


def test_a_model_and_its_folder_have_the_same_scores(tmp_path, capsys):
    model = random_model("BertClassifier", labels=("no", "yes"), text_columns=())
    model.save_pretrained(tmp_path / "model", tokenizer=WordPieceTokenizer(tiny_vocabulary()))
    data, page = tmp_path / "dev.tsv", tmp_path / "page.html"
    data.write_text("text\tlabel\n" + "good film\tyes\nbad film\tno\n" * 4)
    settings = {"data": data, "changes": {"max_length": 8}, "task": "classification"}
    scores = evaluate(tmp_path / "model", **settings)
    assert "examples    8" in capsys.readouterr().err
    loaded = BertClassifier.from_pretrained(tmp_path / "model")
    assert evaluate(loaded, report=page, **settings) == scores
    assert "accuracy" in page.read_text()
