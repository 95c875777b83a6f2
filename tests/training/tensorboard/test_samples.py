"""Predictions of masked tokens as Markdown."""

from bert_keras.training.tensorboard.samples import escaped, filled_text


def test_tokens_are_joined_and_gaps_are_filled():
    tokens = ["[CLS]", "un", "##aff", "[MASK]", "##s", "a", "dog", ".", "[SEP]"]
    assert filled_text(tokens, {3: "GAP", 6: "OTHER"}) == (
        "&#91;CLS&#93; unaff GAP &#35;&#35;s a OTHER . &#91;SEP&#93;"
    )


def test_special_characters_are_escaped():
    assert escaped("<b> *x* _y_ [z] | # &") == (
        "&#60;b&#62; &#42;x&#42; &#95;y&#95; &#91;z&#93; &#124; &#35; &#38;"
    )
    assert escaped("it's 3.5 – Ärger, 東京!") == "it's 3.5 &#8211; Ärger, 東京!"
