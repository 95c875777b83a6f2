"""Builds the README.md that describes a model in its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from bert_keras.architectures import ARCHITECTURES, BERT, family_of
from bert_keras.checkpoints.card import ModelCard, numbered_labels

README = "README.md"  # name of the file
_environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
# Tables of two columns by their headings; each table maps the first column to the second.
Sections = Mapping[str, Mapping[str, Any]]


class Loader(NamedTuple):
    """The call that loads a model in another library."""

    module: str  # module to import the class from
    class_name: str  # "" if the library has no class for the model
    method: str  # method of the class that loads a folder
    format: str  # format that the method reads, a name in FORMATS


def model_readme(card: ModelCard, *, name: str, format: str, sections: Sections) -> str:
    """Returns the text of a model's README.md.

    Args:
        card: The metadata of the model.
        name: The name of the folder.
        format: The format of the files, a name in `bert_keras.checkpoints.formats.FORMATS`.
        sections: Tables by their headings, such as the recipe and the scores of a run.
    """
    family, names = family_of(card.config), ARCHITECTURES[card.model].class_names
    huggingface, keras_hub = names.get("huggingface", ""), names.get("keras_hub", "")
    theirs = family.classes + huggingface if family and huggingface else ""
    others = {
        "transformers": Loader("transformers", theirs, "from_pretrained", "huggingface"),
        "KerasHub": Loader(
            "keras_hub.models", keras_hub if family is BERT else "", "from_preset", "keras-hub"
        ),
    }
    template = _environment.from_string(
        Path(__file__).with_name("model_card.md").read_text("utf-8")
    )
    return template.render(
        card=card,
        name=name,
        format=format,
        relative="" if family in (None, BERT) else family.kind,
        numbered=card.labels == numbered_labels(len(card.labels)),
        sections=sections,
        others=others,
    )
