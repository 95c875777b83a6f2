import pytest

from bert_keras.config import BertConfig
from bert_keras.errors import InputError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 100, "num_heads": 3}, "hidden_size is 100; expected a multiple of num_h"),
        ({"hidden_dropout_rate": 1.0}, "hidden_dropout_rate is 1.0; expected a rate in [0, 1)"),
        ({"vocab_size": 4}, "vocab_size is 4; expected at least 5"),
        ({"num_layers": 0}, "num_layers is 0; expected at least 1"),
        ({"num_layers": 10**6}, "num_layers is 1000000; expected at most 1000"),
        ({"num_lstm_layers": -1}, "num_lstm_layers is -1; expected at least 0"),
        ({"hidden_size": 9, "num_heads": 1, "num_lstm_layers": 1}, "hidden_size is 9; expected an"),
        ({"num_layers": "2"}, "num_layers is '2'; expected int"),
        ({"pooler_activation": "silu"}, "pooler_activation is 'silu'; expected one of tanh, "),
        ({"activation": "mish"}, "activation is 'mish'; expected one of"),
        ({"layer_norm_epsilon": 0.0}, "layer_norm_epsilon is 0.0; expected a number above 0"),
        ({"local_rotary_base": -1.0}, "local_rotary_base is -1.0; expected 0 or a number"),
        ({"position_kind": "none"}, "position_kind is 'none'; expected one of learned, rotary"),
        ({"local_window": 7}, "local_window is 7; expected an even number"),
        (
            {"position_kind": "rotary", "hidden_size": 9, "num_heads": 3},
            "expected heads of an even",
        ),
    ],
)
def test_invalid_values_are_named(values, message):
    with pytest.raises(InputError) as error:
        BertConfig(**values)
    assert message in str(error.value)


def test_the_dict_of_a_bert_omits_fields_of_its_relatives():
    relatives = {"embedding_size", "shares_layers", "pooler_activation", "is_causal", "pooling"}
    assert relatives.isdisjoint(BertConfig().to_dict())
    assert relatives & set(BertConfig(embedding_size=8).to_dict()) == {"embedding_size"}
