import keras
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.export.model_folder import export_model
from bert_keras.models import BertClassifier, BertEncoder
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_PIECES, "no", "yes", "x")))
CONFIG = BertConfig(vocab_size=8, hidden_size=8, num_layers=1, num_heads=2, max_positions=16)


@pytest.mark.parametrize(("num_texts", "inputs"), [(None, {"text"}), (2, {"text", "text_pair"})])
def test_a_foreign_classifier_is_exported(tmp_path, num_texts, inputs):
    keras.utils.set_random_seed(1)
    model = BertClassifier(CONFIG, num_labels=2)
    model.save_pretrained(tmp_path / "theirs", format="huggingface", tokenizer=TOKENIZER)
    written = export_model(tmp_path / "theirs", tmp_path / "name" / "1", num_texts=num_texts)
    signature = tf.saved_model.load(str(written)).signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == inputs
    answer = signature(**{name: tf.constant(["yes"]) for name in inputs})
    assert answer["labels"].numpy().tolist() == [[b"LABEL_0", b"LABEL_1"]]


def test_what_cannot_be_exported_is_told(tmp_path):
    BertEncoder(CONFIG).save_pretrained(tmp_path / "encoder", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match=r"holds a BertEncoder; only a BertClassifier is exported"):
        export_model(tmp_path / "encoder", tmp_path / "name" / "1")
    BertClassifier(CONFIG, num_labels=2).save_pretrained(tmp_path / "bare")
    with pytest.raises(
        InputError, match=r"bare comes without a vocabulary; put the vocab.txt there"
    ):
        export_model(tmp_path / "bare", tmp_path / "name" / "1")
