from math import prod

import pytest

from bert_keras.config import ModelMetadata
from bert_keras.errors import InputError
from bert_keras.families import preset, presets
from tests.factories import weight_shapes

# Encoders with pooler and 30,522 tokens, as in google-research/bert.
PARAMETERS = {
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
    # Published: 66 M; 11.7, 17.7, 58.7 and 223 M; 125 and 355 M.
    "distilbert": 66_362_880,
    "albert-base": 11_683_584,
    "albert-large": 17_683_968,
    "albert-xlarge": 58_724_864,
    "albert-xxlarge": 222_595_584,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    # Published: 278 M and 560 M with the masked-LM head (Conneau et al. 2020); 178 M; 92 M; 111 M.
    "xlm-roberta-base": 278_043_648,
    "xlm-roberta-large": 559_890_432,
    "bert-base-multilingual-cased": 177_853_440,
    "kobert-base": 92_186_880,
    "klue-bert-base": 110_617_344,
    "klue-roberta-base": 110_618_112,
    # Published: 137, 137 and 305 M; 245 M with the masked-LM head.
    "nomic-bert-base": 136_731_648,
    "gte-base": 136_776_192,
    "gte-multilingual-base": 305_368_320,
    "neobert": 221_665_536,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts(name):
    values = {"model": "BertEncoder", "config": preset(name), "lowercase": True, "max_length": 8}
    shapes = weight_shapes(ModelMetadata(**values))
    assert sum(map(prod, shapes.values())) == PARAMETERS[name]


def test_a_size_is_selected_by_its_name_or_hyperparameters():
    assert preset("tiny", vocab_size=4_000).vocab_size == 4_000
    config = preset("L-6_H-768_A-3", vocab_size=9)
    assert (config.num_layers, config.hidden_size, config.num_heads) == (6, 768, 3)
    assert (config.intermediate_size, config.vocab_size) == (3_072, 9)
    assert preset("L-24_H-1024_A-16") == presets()["large"]
    assert sum(name.startswith("L-") for name in presets()) == 24
    assert presets()["base"] == presets()["L-12_H-768"]
    for name in ("L-6_H-768_A-5", "bert-base", "bse"):
        with pytest.raises(InputError):
            preset(name)
