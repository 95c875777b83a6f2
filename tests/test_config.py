import pytest

from bert_keras.config import BertConfig
from bert_keras.errors import InputError


@pytest.mark.parametrize(
    "values",
    [
        {"hidden_size": 100, "num_heads": 3},
        {"hidden_size": 9, "num_heads": 1, "num_lstm_layers": 1},
        {"hidden_size": 9, "num_heads": 3, "position_kind": "rotary"},
        *({"num_layers": value} for value in (0, 10**6, "2")),
        *({"num_lstm_layers": -1}, {"local_window": 7}, {"local_rotary_base": -1.0}),
        *({"hidden_dropout_rate": 1.0}, {"layer_norm_epsilon": 0.0}, {"position_kind": "none"}),
        *({"pooler_activation": "silu"}, {"activation": "mish"}),
    ],
)
def test_invalid_values_are_refused(values):
    with pytest.raises(InputError):
        BertConfig(**values)


def test_the_dict_of_a_bert_omits_fields_of_its_relatives():
    relatives = {"embedding_size", "shares_layers", "pooler_activation", "is_causal", "pooling"}
    assert relatives.isdisjoint(BertConfig().to_dict())
    assert relatives & set(BertConfig(embedding_size=8).to_dict()) == {"embedding_size"}
