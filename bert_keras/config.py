"""Defines the hyperparameters of a model, its embeddings of texts, and its metadata."""

import dataclasses
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from bert_keras import errors
from bert_keras.errors import InputError, check_least, check_name, check_range, printable
from bert_keras.fields import document_fields, setting

# Fine-tuning as in section 4.1, and as in the google-research/bert README for small models.
FINE_TUNING: dict[str, dict[str, Any]] = {
    "paper": {"batch_size": 32, "num_epochs": 3, "learning_rate": 3e-5},
    "small-models": {"batch_size": 32, "num_epochs": 4, "learning_rate": 1e-4},
}
WARMUP_RATIO = 0.1  # fraction of the steps
SINGLE = "single_label_classification"  # problem type of a classifier; "" means the same
SIGMOID = "sigmoid_regression"  # problem type, not of Hugging Face: the score is a sigmoid
LARGEST_DEPTH = 1_000  # layers; it takes minutes to build a deeper model
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_new", "relu", "silu", "tanh")
# Fields of BertConfig whose values are names -> these names
CHOICES = {
    "activation": ACTIVATIONS,
    "pooler_activation": ("tanh", "relu", "gelu", ""),
    "masked_lm_activation": ("", *ACTIVATIONS),
    "norm_position": ("post", "pre"),
    "position_kind": ("learned", "rotary", "relative", "disentangled"),
    "norm_kind": ("layer", "rms"),
    "block_biases": ("all", "not_gate", "none"),
    "pooling": ("cls", "mean"),
}


def default_recipe(hidden_size: int) -> str:
    """Returns the name of the default recipe of `fit` and `finetune` for a hidden size."""
    return "paper" if hidden_size >= 768 else "small-models"


def warn_high_rate(rate: float) -> None:
    """Warns of a learning rate that destroys pretrained weights."""
    if rate > 0.01:
        message = f"the learning rate {rate:g} destroys pretrained weights; BERT needs about 3e-5"
        warnings.warn(message, stacklevel=3)


@errors.suggest_keyword_names
@document_fields
@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The hyperparameters of an encoder.

    The defaults describe BERT-base, uncased (Devlin et al. 2018, section 3). The relatives of BERT
    use the same encoder with other values: ALBERT (Lan et al. 2019) sets `embedding_size` and
    `shares_layers`, RoBERTa (Liu et al. 2019) sets `position_offset`, DistilBERT (Sanh et al.
    2019) sets `num_segments=0` and `pooler_activation="relu"`, ELECTRA (Clark et al. 2020) sets
    `pooler_activation="gelu"`, and ModernBERT (Warner et al. 2024) sets the fields from
    `norm_position` on. `bert_keras.families` has these and the other relatives.

    Raises:
        InputError: A field has the wrong type or an impossible value.

    Example:

    ```python
    config = BertConfig(vocab_size=4_000, hidden_size=128, num_layers=2, num_heads=2)
    ```
    """

    vocab_size: int = setting(30_522, "number of tokens, the rows of the token embedding table")
    hidden_size: int = setting(768, "size of the hidden states; a multiple of num_heads")
    num_layers: int = setting(12, "number of encoder blocks")
    num_heads: int = setting(12, "number of attention heads in each block")
    intermediate_size: int = setting(0, "units of the feed-forward layers; 0 means 4 * hidden_size")
    max_positions: int = setting(512, "largest number of tokens in an input sequence")
    num_segments: int = setting(2, "number of segment embeddings; 0 for none")
    activation: str = setting("gelu", 'one of ACTIVATIONS; "gelu" is exact (erf)')
    hidden_dropout_rate: float = setting(0.1, "dropout of embeddings and of each sublayer's output")
    attention_dropout_rate: float = setting(0.1, "dropout of the attention probabilities")
    layer_norm_epsilon: float = setting(1e-12, "added to the variance in each LayerNorm")
    initializer_stddev: float = setting(0.02, "standard deviation of truncated normal weights")
    has_pooler: bool = setting(True, "whether the encoder has a pooler and returns a pooled output")
    embedding_size: int = setting(
        0, "size of the embeddings, which a dense layer projects; 0: hidden_size, no projection"
    )
    shares_layers: bool = setting(False, "whether all layers are one block with shared weights")
    position_offset: int = setting(0, "row of position 0; the table has as many more rows")
    pooler_activation: str = setting("tanh", 'or "relu" or "gelu"; "" means `activation`')
    is_causal: bool = setting(
        False, "whether tokens attend only to themselves and preceding tokens (section 5.1)"
    )
    num_lstm_layers: int = setting(0, "BiLSTM layers after the last block (section 5.1)")
    masked_lm_activation: str = setting("", 'of the masked-LM head; "" means `activation`')
    masked_lm_epsilon: float = setting(0.0, "of the masked-LM head; 0 means `layer_norm_epsilon`")
    norm_position: str = setting(
        "post", '"post": LayerNorm(x + sublayer(x)); "pre": x + sublayer(LayerNorm(x))'
    )
    position_kind: str = setting(
        "learned",
        '"learned": a table; "rotary": as Su et al. 2021; "relative": a table, and a bias of '
        'attention for each distance (MPNet); "disentangled": as DeBERTa',
    )
    rotary_base: float = setting(10_000.0, "angle of pair i of n: position / rotary_base^(i/n)")
    local_rotary_base: float = setting(0.0, "rotary_base of local attention; 0 for the same base")
    is_gated: bool = setting(False, "whether feed-forward layers are gated (GeGLU, SwiGLU)")
    has_biases: bool = setting(
        True, "whether dense layers and LayerNorms have biases; the last ones of heads always do"
    )
    ties_decoder: bool = setting(True, "whether the masked-LM head uses the token embeddings")
    local_window: int = setting(
        0, "tokens attend to tokens at most local_window / 2 away; 0 means the whole sequence"
    )
    global_every: int = setting(3, "with local_window, block i is global if i % global_every == 0")
    has_head_norm: bool = setting(
        False, "whether pooler, tag and span heads have a dense layer with activation and LayerNorm"
    )
    head_dropout_rate: float = setting(-1.0, "dropout before logits; -1 means hidden_dropout_rate")
    pooling: str = setting("cls", 'what the pooler reads: "cls", or "mean" of all hidden states')
    num_relative_buckets: int = setting(
        0, 'groups of distances; only for the position_kind "relative" or "disentangled"'
    )
    rotary_divisor: float = setting(1.0, "by which rotary positions are divided")
    norm_kind: str = setting("layer", '"layer": LayerNorm; "rms": RMSNorm, which has no bias')
    block_biases: str = setting(
        "all",
        'dense layers of a block with biases: "all", "not_gate" (all but the gated) or "none"',
    )
    has_embedding_norm: bool = setting(True, "whether LayerNorm follows the embeddings")

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        for each in dataclasses.fields(self):
            value, type_ = getattr(self, each.name), cast(type, each.type)
            if type(value) is not type_ and not (type_ is float and type(value) is int):
                raise InputError(f"{each.name} is {value!r}; expected {type_.__name__}")
            if type_ is int:
                least = 0 if each.default == 0 or each.name == "num_segments" else 1
                most = LARGEST_DEPTH if each.name == "num_layers" else errors.LARGEST_SIZE
                check_least(self, least, each.name, most=most)
        for name, known in CHOICES.items():
            errors.check_choice(self, name, known)
        rates = ("hidden_dropout_rate", "attention_dropout_rate", "dropout_of_heads")
        check_range(self, "a rate in [0, 1)", *rates)
        names = ("layer_norm_epsilon", "initializer_stddev", "rotary_base", "rotary_divisor")
        check_range(self, "a number above 0", *names)
        check_range(self, "0 or a number above it", "masked_lm_epsilon", "local_rotary_base")
        if self.position_kind in ("relative", "disentangled"):
            check_least(self, 4, "num_relative_buckets")
            errors.check_unused(self, "local_window", reason="with relative positions")
        else:
            reason = f"with {self.position_kind} positions"
            errors.check_unused(self, "num_relative_buckets", reason=reason)
        # Rotary positions rotate pairs of values, and a BiLSTM has two directions.
        halves = 2 if self.num_lstm_layers else 1
        unit = 2 * self.num_heads if self.is_rotary else math.lcm(self.num_heads, halves)
        for name, divisor in {"hidden_size": unit, "local_window": 2}.items():
            if getattr(self, name) % divisor:
                raise InputError(
                    f"{name} is {getattr(self, name)}; expected a multiple of {divisor}"
                )

    @property
    def dropout_of_heads(self) -> float:
        """The dropout rate before logits."""
        return self.hidden_dropout_rate if self.head_dropout_rate == -1 else self.head_dropout_rate

    @property
    def is_rotary(self) -> bool:
        """Whether `position_kind` is "rotary"."""
        return self.position_kind == "rotary"

    @property
    def has_position_table(self) -> bool:
        """Whether the embeddings have a position table."""
        return self.position_kind in ("learned", "relative")

    @property
    def is_pre_norm(self) -> bool:
        """Whether `norm_position` is "pre"; the encoder then has a final LayerNorm."""
        return self.norm_position == "pre"

    def has_attention_norm(self, index: int) -> bool:
        """Returns whether a block has a LayerNorm before or after its attention."""
        # The first block of a pre-norm encoder reads the LayerNorm of the embeddings.
        has_input_norm = self.has_embedding_norm and not self.embedding_size
        reads_norm = index == 0 and has_input_norm and not self.shares_layers
        return not (self.is_pre_norm and reads_norm)

    def is_local(self, index: int) -> bool:
        """Returns whether block `index` attends only to the tokens within `local_window`."""
        return self.local_window > 0 and index % self.global_every > 0

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values; omits later fields that have their default value."""
        defaults = {each.name: each.default for each in dataclasses.fields(self)}
        values = {name: getattr(self, name) for name in defaults}
        always = list(defaults)[: list(defaults).index("embedding_size")]
        return {n: v for n, v in values.items() if n in always or v != defaults[n]}


# Ways to compute one vector from the hidden states of a text, under their names in
# sentence-transformers. "mean_sqrt_len_tokens" divides the sum by the square root of the number of
# tokens.
TEXT_POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens")
DENSE_ACTIVATIONS = ("identity", "tanh", "gelu", "relu")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@document_fields
@dataclass(frozen=True, kw_only=True)
class DenseModule:
    """A dense layer after the pooling.

    Example:

    ```python
    config = EmbeddingConfig(modules=(DenseModule(units=256, activation="identity"),))
    ```
    """

    units: int = field(metadata={"help": "size of the output"})
    activation: str = setting("tanh", 'one of DENSE_ACTIVATIONS; "gelu" is exact (erf)')
    has_bias: bool = setting(True, "whether the layer adds a bias")

    def __post_init__(self) -> None:
        check_least(self, 1, "units", most=errors.LARGEST_SIZE)
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


@errors.suggest_keyword_names
@document_fields
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

    pooling: tuple[str, ...] = setting(("mean",), "names in TEXT_POOLINGS, to concatenate")
    modules: tuple[Module, ...] = setting((NormalizeModule(),), "layers after the pooling")
    prompts: Mapping[str, str] = field(default_factory=dict, metadata={"help": "texts to prepend"})
    default_prompt_name: str | None = setting(None, "prompt of inputs without an explicit one")
    similarity: str = setting("cosine", "one of SIMILARITIES, by which embeddings are compared")

    def __post_init__(self) -> None:
        pooling = self.pooling
        if not isinstance(pooling, tuple) or not pooling or len(set(pooling)) < len(pooling):
            raise InputError(f"pooling is {pooling!r}; expected a tuple of different names")
        for name in pooling:
            check_name(name, TEXT_POOLINGS, what="pooling")
        check_name(self.similarity, SIMILARITIES, what="similarity")
        if self.default_prompt_name is not None:
            self.prompt(name=self.default_prompt_name)

    def prompt(self, text: str | None = None, *, name: str | None = None) -> str:
        """Returns the text to put before an input.

        Args:
            text: The text itself.
            name: The name of a prompt in `prompts`. Without both arguments, the default prompt is
                returned, or "" if there is none.

        Raises:
            InputError: `name` is unknown, or both arguments are given.
        """
        if text is not None and name is not None:
            raise InputError(f"the prompts {text!r} and {name!r} are given; expected one of them")
        if text is not None:
            return text
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        check_name(name, self.prompts, what="prompt")
        return self.prompts[name]

    def sizes(self, hidden_size: int) -> list[int]:
        """Returns the size of the pooled vector, and then the size of each module's output."""
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
        steps = [
            f"dense to {module.units} ({module.activation})"
            if isinstance(module, DenseModule)
            else "scaled to length 1"
            for module in self.modules
        ]
        return ", ".join([f"{' and '.join(self.pooling)} pooling", *steps])

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as values that JSON can store."""
        names = {module: name for name, module in MODULES.items()}
        modules = [{"kind": names[type(m)], **dataclasses.asdict(m)} for m in self.modules]
        return {**vars(self), "prompts": dict(self.prompts), "modules": modules}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EmbeddingConfig":
        """Builds the configuration from the result of `to_dict`."""
        modules = [dict(module) for module in values["modules"]]
        modules = tuple(MODULES[module.pop("kind")](**module) for module in modules)
        return cls(**{**values, "pooling": tuple(values["pooling"]), "modules": modules})


@dataclass(frozen=True, kw_only=True)
class ModelMetadata:
    """The description of a model in a checkpoint, without the weights and the vocabulary."""

    model: str  # name of the model class, a key of `bert_keras.models.MODELS`
    config: BertConfig  # hyperparameters of the encoder
    lowercase: bool  # whether the tokenizer lower-cases text
    max_length: int  # maximum length of an input sequence in tokens, special tokens included
    shortens_first: bool = False  # how to truncate pairs; see `bert_keras.text.packing`
    text_columns: tuple[str, ...] = ()  # names of the one or two texts of a training example
    labels: tuple[str, ...] = ()  # names of the labels, in the order of the logits
    problem_type: str = ""  # of Hugging Face, such as "regression", or SIGMOID; "" if unknown
    # Name and settings of the fine-tuning task, or the size of a generator, or {}
    task: Mapping[str, Any] = field(default_factory=dict)
    # How a BertSentenceEncoder computes an embedding; None for other models
    embedding: EmbeddingConfig | None = None

    def __post_init__(self) -> None:
        most = self.config.max_positions
        if not 3 <= self.max_length <= most:
            raise InputError(f"max_length is {self.max_length}; expected 3 to {most} tokens")
        are_texts = all(isinstance(each, str) and each == printable(each) for each in self.labels)
        are_lines = are_texts and not {"\t", "\n"} & {*"".join(self.labels)}
        if not are_lines or "" in self.labels or len(set(self.labels)) < len(self.labels):
            raise InputError(f"the labels are {self.labels}; expected different printable texts")
        if self.model == "BertSentenceEncoder":
            object.__setattr__(self, "embedding", self.embedding or EmbeddingConfig())

    @property
    def tokenizer_settings(self) -> dict[str, bool]:
        """The arguments of `tokenizer_of` except for the vocabulary."""
        return {"lowercase": self.lowercase, "shortens_first": self.shortens_first}

    def of_model(self, model: str, *, keeps_head: bool, **changes: Any) -> "ModelMetadata":
        """Returns the metadata for a model class, without labels and task unless `keeps_head`."""
        fields: dict[str, Any] = {"embedding": None} if model != "BertSentenceEncoder" else {}
        if not keeps_head:
            fields |= {"labels": (), "text_columns": (), "problem_type": "", "task": {}}
        return dataclasses.replace(self, model=model, **fields | changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values; omits an `embedding` of None."""
        values = {**dataclasses.asdict(self), "config": self.config.to_dict()}
        del values["embedding"]
        return values | ({"embedding": self.embedding.to_dict()} if self.embedding else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelMetadata":
        """Builds the metadata from the output of `to_dict`."""
        values = dict(values)
        types = {"model": str, "lowercase": bool, "max_length": int}
        types |= {"problem_type": str, "task": dict, "shortens_first": bool}
        for name, type_ in types.items():
            if type(values.get(name, type_())) is not type_:
                raise TypeError(f"{name} is {values[name]!r}")
        values["config"] = BertConfig(**values["config"])
        if "embedding" in values:
            values["embedding"] = EmbeddingConfig.from_dict(values["embedding"])
        for name in ("text_columns", "labels"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


def numbered_labels(count: int) -> tuple[str, ...]:
    """Returns Hugging Face's default label names, "LABEL_0" and so on, for `count` labels."""
    return tuple(f"LABEL_{index}" for index in range(count))


# Slices of the sequence of hidden states. Index 0 is the output of the embedding layer, and index i
# is the output of block i. "weighted-sum-all" is the paper's "all 12 layers", without embeddings.
LAYER_CHOICES = {
    "embeddings": slice(0, 1),
    "second-to-last": slice(-2, -1),
    "last": slice(-1, None),
    "weighted-sum-last-four": slice(-4, None),
    "concat-last-four": slice(-4, None),
    "weighted-sum-all": slice(1, None),
}


def feature_layers(name: str, *, num_layers: int) -> tuple[int, ...]:
    """Returns the indices of the hidden states that a key of `LAYER_CHOICES` selects."""
    check_name(name, LAYER_CHOICES, what="choice of layers")
    indices = tuple(range(num_layers + 1)[LAYER_CHOICES[name]])
    if name != "embeddings" and 0 in indices:
        raise InputError(f"{name!r} needs more layers than the encoder's {num_layers}")
    return indices
