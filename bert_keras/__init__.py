"""Pretrains, fine-tunes, exports and serves BERT with Keras 3 and TensorFlow.

The modules of the public names are imported on first use, so `import bert_keras` is fast.
"""

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING

from bert_keras.errors import suggest_name

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # C++ code of TensorFlow logs fatal errors only
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # otherwise off without AVX512-VNNI

if TYPE_CHECKING:  # type checkers and editors read the names here, and so does `__getattr__`
    from bert_keras.config import BertConfig as BertConfig
    from bert_keras.config import DenseModule as DenseModule
    from bert_keras.config import EmbeddingConfig as EmbeddingConfig
    from bert_keras.config import NormalizeModule as NormalizeModule
    from bert_keras.data.masking import Masker as Masker
    from bert_keras.data.masking import MaskingPolicy as MaskingPolicy
    from bert_keras.data.objectives import DynamicMasking as DynamicMasking
    from bert_keras.data.objectives import masked_and_labelled as masked_and_labelled
    from bert_keras.data.preprocessor import Preprocessor as Preprocessor
    from bert_keras.data.records import pretraining_dataset as pretraining_dataset
    from bert_keras.downstream.task import Task
    from bert_keras.errors import InputError as InputError
    from bert_keras.families import preset as preset
    from bert_keras.models.distiller import Distiller as Distiller
    from bert_keras.models.encoder import BertEncoder as BertEncoder
    from bert_keras.models.feature_tagger import BertFeatureTagger as BertFeatureTagger
    from bert_keras.models.loading import from_keras_hub as from_keras_hub
    from bert_keras.models.loading import load_model as load_model
    from bert_keras.models.pretrainer import BertMaskedLM as BertMaskedLM
    from bert_keras.models.pretrainer import BertPretrainer as BertPretrainer
    from bert_keras.models.replaced_tokens import BertDiscriminator as BertDiscriminator
    from bert_keras.models.replaced_tokens import (
        BertReplacedTokenPretrainer as BertReplacedTokenPretrainer,
    )
    from bert_keras.models.sentence_encoder import BertSentenceEncoder as BertSentenceEncoder
    from bert_keras.models.task_models import BertClassifier as BertClassifier
    from bert_keras.models.task_models import BertMultipleChoice as BertMultipleChoice
    from bert_keras.models.task_models import BertQuestionAnswering as BertQuestionAnswering
    from bert_keras.models.task_models import BertTokenClassifier as BertTokenClassifier
    from bert_keras.runs.conversion import convert as convert
    from bert_keras.runs.evaluate import evaluate as evaluate
    from bert_keras.runs.export import export as export
    from bert_keras.runs.finetune import finetune as finetune
    from bert_keras.runs.outcome import RunResult as RunResult
    from bert_keras.runs.pretrain import pretrain as pretrain
    from bert_keras.runs.recipes import FinetuneRecipe as FinetuneRecipe
    from bert_keras.runs.recipes import PretrainRecipe as PretrainRecipe
    from bert_keras.runs.task_run import TaskRun as TaskRun
    from bert_keras.serving.client import Client as Client
    from bert_keras.serving.limits import Limits as Limits
    from bert_keras.serving.litert import ExportedModel as ExportedModel
    from bert_keras.serving.litert import load_exported as load_exported
    from bert_keras.serving.server import running_server as running_server
    from bert_keras.serving.server import serve as serve
    from bert_keras.text.packing import encode as encode
    from bert_keras.text.packing import encode_masked as encode_masked
    from bert_keras.text.tokenizer import WordPieceTokenizer as WordPieceTokenizer
    from bert_keras.text.vocab import Vocabulary as Vocabulary
    from bert_keras.training.losses import pretraining_losses as pretraining_losses
    from bert_keras.training.losses import pretraining_metrics as pretraining_metrics
    from bert_keras.training.optimizer import BertAdamW as BertAdamW
    from bert_keras.training.optimizer import LinearWarmupDecay as LinearWarmupDecay
    from bert_keras.training.sentence_losses import CoSENTLoss as CoSENTLoss
    from bert_keras.training.sentence_losses import CosineSimilarityLoss as CosineSimilarityLoss
    from bert_keras.training.sentence_losses import MatryoshkaLoss as MatryoshkaLoss
    from bert_keras.training.sentence_losses import (
        MultipleNegativesRankingLoss as MultipleNegativesRankingLoss,
    )
    from bert_keras.training.tensorboard import read_curves as read_curves

    tasks: dict[str, Task]
    """The fine-tuning tasks by name. `finetune` and `evaluate` also accept a task that is not here.

    Example:

    ```python
    print(*tasks)
    short = dataclasses.replace(tasks["mrpc"], max_length=64)
    ```
    """

    recipes: dict[str, PretrainRecipe]
    """The pretraining recipes by name, which `pretrain` accepts.

    Example:

    ```python
    print(*recipes)
    longer = dataclasses.replace(recipes["tiny-hour"], num_steps=20_000)
    ```
    """

# Public name -> its module. The imports above are not executed: their text is read here, so that
# each public name is written once.
_SOURCE = __spec__.loader.get_source(__name__)
_HOMES = {n: m for m, n in re.findall(r"^    from (\S+) import \(?\s*(\w+) as", _SOURCE, re.M)}
_HOMES |= {"tasks": "bert_keras.downstream.catalog", "recipes": "bert_keras.runs.recipes"}
__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name == "__version__":
        return import_module("importlib.metadata").version("bert-keras")
    if name not in _HOMES:
        raise AttributeError(f"bert_keras has no {name}{suggest_name(name, __all__)}")
    attribute = {"tasks": "TASKS", "recipes": "PRETRAIN"}.get(name, name)
    return getattr(import_module(_HOMES[name]), attribute)


def __dir__() -> list[str]:
    return __all__
