"""`evaluate` scores a model in memory and its folder alike."""

import keras

from bert_keras import BertClassifier, BertConfig, Vocabulary, WordPieceTokenizer
from bert_keras.runs.evaluate import evaluate
from bert_keras.text.vocab import SPECIAL_TOKENS


def test_a_model_and_its_folder_have_the_same_scores(tmp_path, capsys):
    vocabulary = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film"))
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_layers=1, num_heads=2, max_positions=16
    )
    keras.utils.set_random_seed(1)
    model = BertClassifier(config, num_labels=2)
    tokenizer = WordPieceTokenizer(vocabulary)
    model.save_pretrained(tmp_path / "model", tokenizer=tokenizer, labels=("no", "yes"))
    data = tmp_path / "dev.tsv"
    data.write_text("text\tlabel\n" + "good film\tyes\nbad film\tno\n" * 4)
    settings = {"data": data, "changes": {"max_length": 8}}
    scores = evaluate(tmp_path / "model", **settings)
    assert "examples    8" in capsys.readouterr().err
    loaded = BertClassifier.from_pretrained(tmp_path / "model")
    page = tmp_path / "page.html"
    assert evaluate(loaded, report=page, task="classification", **settings) == scores
    assert "accuracy" in page.read_text()
