"""Builds the README.md that describes a model in its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, StrictUndefined

from bert_keras.config import ModelMetadata, numbered_labels
from bert_keras.families import family_of
from bert_keras.text.vocab import Vocabulary

# Tables of two columns by their headings; each table maps the first column to the second.
Sections: TypeAlias = Mapping[str, Mapping[str, Any]]
_environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def model_readme(
    metadata: ModelMetadata, *, vocabulary: Vocabulary | None, name: str, sections: Sections
) -> str:
    """Returns the text of a model's README.md.

    Args:
        metadata: The metadata of the model.
        vocabulary: The vocabulary of the model; None without one.
        name: The name of the folder.
        sections: Tables by their headings, such as the recipe and the scores of a run.
    """
    family = family_of(metadata.config, vocabulary)
    template = Path(__file__).with_name("model_card.md").read_text("utf-8")
    return _environment.from_string(template).render(
        metadata=metadata,
        name=name,
        family=family.kind if family else "",
        numbered=metadata.labels == numbered_labels(len(metadata.labels)),
        sections=sections,
    )
