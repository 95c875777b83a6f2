"""Defines EmbeddingConfig: how a sentence encoder computes an embedding from hidden states."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bert_keras.errors import LARGEST_SIZE, InputError, check_least, check_name

# Ways to compute one vector from the hidden states of a text, under their names in
# sentence-transformers. "mean_sqrt_len_tokens" divides the sum by the square root of the number of
# tokens. "weightedmean" weights the states by their position, counted from 1.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
DENSE_ACTIVATIONS = ("identity", "tanh", "gelu", "relu")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclass(frozen=True, kw_only=True)
class DenseModule:
    """A dense layer after the pooling.

    Raises:
        InputError: A field has an impossible value.

    Example:

    ```python
    config = EmbeddingConfig(modules=(DenseModule(units=256, activation="identity"),))
    ```
    """

    units: int  # size of the output
    activation: str = "tanh"  # one of DENSE_ACTIVATIONS; "gelu" is exact (erf)
    has_bias: bool = True  # whether the layer adds a bias

    def __post_init__(self) -> None:
        check_least(self, 1, "units", most=LARGEST_SIZE)
        check_name(self.activation, DENSE_ACTIVATIONS, what="activation of a dense module")


@dataclass(frozen=True, kw_only=True)
class NormalizeModule:
    """Scales a vector to length 1.

    Example:

    ```python
    config = EmbeddingConfig(modules=(DenseModule(units=256), NormalizeModule()))
    ```
    """


Module: TypeAlias = DenseModule | NormalizeModule
MODULES: dict[str, type[Module]] = {"dense": DenseModule, "normalize": NormalizeModule}


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """How a sentence encoder computes the embedding of a text from its hidden states.

    The default is the mean of the hidden states of all tokens, scaled to length 1.

    Raises:
        InputError: A field has an impossible value.

    Example:

    ```python
    config = EmbeddingConfig(pooling=("cls",), modules=(DenseModule(units=256),))
    ```
    """

    pooling: tuple[str, ...] = ("mean",)  # names in POOLINGS; several results are concatenated
    modules: tuple[Module, ...] = (NormalizeModule(),)  # applied to the pooled vector, in order
    # Texts to put before an input, by name, such as {"query": "query: "}.
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None  # prompt of inputs without an explicit one
    includes_prompt: bool = True  # whether the pooling reads [CLS] and the tokens of the prompt
    similarity: str = "cosine"  # one of SIMILARITIES, by which embeddings are compared

    def __post_init__(self) -> None:
        if not self.pooling or len(set(self.pooling)) < len(self.pooling):
            raise InputError(f"pooling is {self.pooling}; expected one or more different names")
        for name in self.pooling:
            check_name(name, POOLINGS, what="pooling")
        check_name(self.similarity, SIMILARITIES, what="similarity")
        if not all(isinstance(each, str) for each in (*self.prompts, *self.prompts.values())):
            raise InputError(f"prompts is {self.prompts!r}; expected texts by their names")
        if self.default_prompt_name is not None:
            self.prompt(name=self.default_prompt_name)

    def prompt(self, text: str | None = None, *, name: str | None = None) -> str:
        """Returns the text to put before an input.

        Args:
            text: The text itself.
            name: The name of a prompt in `prompts`. Without both, the default prompt is returned,
                or "" if there is none.

        Raises:
            InputError: There is no such prompt, or both arguments are given.
        """
        if text is not None and name is not None:
            raise InputError(f"the prompts {text!r} and {name!r} are given; expected one of them")
        if text is not None:
            return text
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise InputError(f"no prompt is called {name!r}; known: {known}")
        return self.prompts[name]

    def sizes(self, hidden_size: int) -> list[int]:
        """Returns the size of the pooled vector, then that of the output of each module."""
        sizes = [len(self.pooling) * hidden_size]
        for module in self.modules:
            sizes.append(module.units if isinstance(module, DenseModule) else sizes[-1])
        return sizes

    @property
    def is_normalized(self) -> bool:
        """Whether embeddings have length 1."""
        return bool(self.modules) and isinstance(self.modules[-1], NormalizeModule)

    @property
    def summary(self) -> str:
        """The steps in order, such as "cls pooling, dense to 256 (tanh), scaled to length 1"."""
        steps = [f"{' and '.join(self.pooling)} pooling"]
        for module in self.modules:
            is_dense = isinstance(module, DenseModule)
            dense = f"dense to {module.units} ({module.activation})" if is_dense else ""
            steps.append(dense or "scaled to length 1")
        return ", ".join(steps)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as values that JSON can store."""
        kinds = {kind: name for name, kind in MODULES.items()}
        modules = [{"kind": kinds[type(m)], **dataclasses.asdict(m)} for m in self.modules]
        return {**vars(self), "prompts": dict(self.prompts), "modules": modules}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EmbeddingConfig":
        """Builds the configuration from the result of `to_dict`."""
        modules = [{**module} for module in values["modules"]]
        modules = tuple(MODULES[module.pop("kind")](**module) for module in modules)
        return cls(**{**values, "pooling": tuple(values["pooling"]), "modules": modules})
