"""CamemBERT (Martin et al. 2020): RoBERTa's network for French, with SentencePiece's tokenizer."""

import dataclasses

from bert_keras.families.xlm_roberta import FAMILY as XLM_ROBERTA
from bert_keras.text.fast_tokenizer import CAMEMBERT_SPECIALS

FAMILY = dataclasses.replace(
    XLM_ROBERTA,
    kind="camembert",
    presets={
        f"camembert-{name}": dataclasses.replace(size, vocab_size=32_005)
        for name, size in zip(("base", "large"), XLM_ROBERTA.presets.values(), strict=True)
    },
    specials=CAMEMBERT_SPECIALS,
    hub_names=("almanach/camembert-base", "almanach/camembert-large"),
    class_prefix="Camembert",
)
