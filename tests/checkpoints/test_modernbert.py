"""The config.json of ModernBERT: the keys of transformers 4 and 5, and values that are refused."""

import json

import pytest

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import read_config
from bert_keras.errors import InputError
from bert_keras.families import MODERNBERT
from bert_keras.presets import preset
from tests.checkpoints.test_families import CHANGES

# The file of answerdotai/ModernBERT-base, without the keys that have no effect here.
PUBLISHED = {
    "model_type": "modernbert",
    "attention_bias": False,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "decoder_bias": True,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "position_embedding_type": "absolute",
    "vocab_size": 50368,
}


def bases(global_base, local_base):
    return {
        kind: {"rope_type": "default", "rope_theta": base}
        for kind, base in (("full_attention", global_base), ("sliding_attention", local_base))
    }


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({}, {}),
        ({"local_rope_theta": None}, {"local_rotary_base": 0.0}),
        # transformers prefers the new keys.
        (
            {"rope_parameters": bases(500, 20.0), "local_rope_theta": 7.0},
            {"rotary_base": 500.0, "local_rotary_base": 20.0},
        ),
        ({"rope_parameters": {"full_attention": {"rope_theta": 9.0}}}, {"rotary_base": 9.0}),
        ({"global_attn_every_n_layers": 2}, {"global_every": 2}),
        ({"global_attn_every_n_layers": 1}, {"local_window": 0}),
        (
            {"layer_types": ["full_attention", *["sliding_attention"] * 3] * 5
             + ["full_attention", "sliding_attention"]},
            {"global_every": 4},
        ),
        ({"local_attention": 65}, {"local_window": 64}),
        ({"classifier_pooling": "mean"}, {"pooling": "mean"}),
        ({"tie_word_embeddings": False}, {"ties_decoder": False}),
        (
            dict.fromkeys(("attention_bias", "classifier_bias", "mlp_bias", "norm_bias"), True),
            {"has_biases": True},
        ),
    ],
)  # fmt: skip
def test_values_of_the_published_file(values, changes):
    expected = preset("modernbert-base", has_pooler=True, **changes)
    assert read_config(PUBLISHED | values, MODERNBERT) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"norm_bias": True}, r"mlp_bias is false, norm_bias is true; expected one value for all"),
        ({"decoder_bias": False}, "decoder_bias is false; expected true, the only supported value"),
        ({"classifier_activation": "silu"}, "classifier_activation is 'silu'; expected 'gelu'"),
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'; expected one of cls, mean"),
        ({"local_attention": 0}, "local_attention is 0; expected at least 2"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers is 0; expected at least 1"),
        ({"global_rope_theta": "x"}, "global_rope_theta is 'x'; expected a number"),
        (
            {"rope_parameters": {"sliding_attention": {"rope_type": "yarn", "rope_theta": 1.0}}},
            "the rope_type of sliding_attention is 'yarn'; expected 'default'",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "the rope_type of full_attention is 'linear'; expected 'default'",
        ),
        (
            {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
            r'layer_types is \["sliding_attention", "full_attention"\]; expected 2 values, of whi',
        ),
    ],
)
def test_unsupported_values_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        read_config(PUBLISHED | values, MODERNBERT)


@pytest.mark.extra
@pytest.mark.parametrize(
    "changes", [{"ties_decoder": False}, {"has_biases": True}, {"local_window": 0}]
)
def test_options_survive_transformers(checkpoint, tmp_path, changes):
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    transformers.logging.disable_progress_bar()
    options = CHANGES["modernbert"] | {"local_rotary_base": 0.0, "has_pooler": False} | changes
    if not options["local_window"]:
        del options["global_every"]
    original = checkpoint("BertMaskedLM", **options)
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    theirs, info = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "it", output_loading_info=True
    )
    assert not any(info.values()), info
    theirs.save_pretrained(tmp_path / "again")
    values = json.loads((tmp_path / "again/config.json").read_text())
    assert values["pad_token_id"] == original.vocabulary.pad_id
    read = open_checkpoint(tmp_path / "again")
    assert (read.metadata.config, read.notes) == (original.metadata.config, ())
    for name, tensor in original.tensors.items():
        assert read.tensors[name].read().tobytes() == tensor.read().tobytes()
