"""Builds the README.md that describes a model in its folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.huggingface.tokenizer import check_padding
from bert_keras.checkpoints.keras_hub import hub_family
from bert_keras.checkpoints.metadata import ModelMetadata, numbered_labels
from bert_keras.errors import InputError
from bert_keras.families import BERT, family_of
from bert_keras.text.vocab import Vocabulary

README = "README.md"  # name of the file
_environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
# Tables of two columns by their headings; each table maps the first column to the second.
Sections = Mapping[str, Mapping[str, Any]]


def model_readme(
    metadata: ModelMetadata,
    *,
    vocabulary: Vocabulary | None,
    name: str,
    format: str,
    sections: Sections,
) -> str:
    """Returns the text of a model's README.md.

    Args:
        metadata: The metadata of the model.
        vocabulary: The vocabulary of the model; None without one.
        name: The name of the folder.
        format: The format of the files, a name in `bert_keras.checkpoints.formats.FORMATS`.
        sections: Tables by their headings, such as the recipe and the scores of a run.
    """
    family = family_of(metadata.config, vocabulary)

    def class_name(library: str, check: Callable[[], object]) -> str:
        ending = ARCHITECTURES[metadata.model].class_names.get(library)
        try:
            check()
        except InputError:
            return ""
        return family.class_prefix + ending if family and ending else ""

    huggingface = class_name("huggingface", lambda: check_padding(family, vocabulary))
    keras_hub = class_name("keras_hub", lambda: hub_family(metadata, vocabulary))
    loaders = {  # by library: module, class ("" if it has none), method, and format that it reads
        "transformers": ("transformers", huggingface, "from_pretrained", "huggingface"),
        "KerasHub": ("keras_hub.models", keras_hub, "from_preset", "keras-hub"),
    }
    if metadata.embedding is not None:
        library = "sentence-transformers"
        loaders = {library: ("sentence_transformers", "SentenceTransformer", "", library)}
    template = _environment.from_string(
        Path(__file__).with_name("model_card.md").read_text("utf-8")
    )
    return template.render(
        metadata=metadata,
        name=name,
        format=format,
        relative="" if family in (None, BERT) else family.kind,
        numbered=metadata.labels == numbered_labels(len(metadata.labels)),
        sections=sections,
        loaders=loaders,
    )
