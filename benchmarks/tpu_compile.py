"""Compiles the pretraining steps of recipes for four chips of a TPU v5e, on a machine without one.

docs/benchmarks/archive/gpu-2026-11.md has results. A step is the one that `fit` runs under the JAX
backend of Keras: forward pass, backward pass, clipping, the optimizer of the recipe and metrics,
with its dropout, in mixed_bfloat16, on a batch of which each chip has a part. For a recipe that
accumulates gradients, the batch is one part. The teacher of a distillation is not included.

The table has the memory and the operations of one chip, as XLA counts them; nothing runs. A program
that needs more than the 15.75 GiB that programs can use has a row without numbers.

    pip install "bert-keras[jax,tpu]"
    python benchmarks/tpu_compile.py
    python benchmarks/tpu_compile.py --recipe paper-128 --batch-size 1024 --max-length 128
"""

import argparse
import dataclasses
import importlib.util
import os
import time
from pathlib import Path
from types import SimpleNamespace

os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost"}
os.environ["TPU_ACCELERATOR_TYPE"] = "v5litepod-4"
os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"  # no TPU is used, so others may load it, too
if spec := importlib.util.find_spec("libtpu"):
    os.environ["TPU_LIBRARY_PATH"] = str(Path(spec.origin).with_name("libtpu.so"))

import jax
import keras
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from train_batches import synthetic_batches

from bert_keras.config import ModelMetadata
from bert_keras.families import preset
from bert_keras.runs.pretrain import build_pretrainer
from bert_keras.runs.pretraining_tasks import pretraining_task
from bert_keras.runs.recipes import PRETRAIN, PretrainRecipe

TOPOLOGY = "v5e:2x2"
# Tokens of the records for which a recipe is meant, if not 128.
LENGTHS = {"demo": 64, **dict.fromkeys(("paper-512", "distilbert"), 512)}
HEADS = ("batch x length", "arguments GiB", "temporary GiB", "total GiB", "TFLOP", "compiled in s")


def pretrainer(recipe: PretrainRecipe, length: int) -> keras.Model:
    """Returns the compiled model of a recipe, as `pretrain` makes it."""
    task = pretraining_task(
        recipe.objective, has_labels=not recipe.size.startswith(("roberta", "distil"))
    )
    config = preset(
        recipe.size,
        hidden_dropout_rate=recipe.dropout_rate,
        attention_dropout_rate=recipe.dropout_rate,
        has_pooler=task.model.kind.reads_pooled_output,
    )
    settings = (
        {"generator_size": recipe.generator_size} if recipe.objective == "replaced-token" else {}
    )
    metadata = ModelMetadata(
        model=task.model.kind.model, config=config, lowercase=True, max_length=length, task=settings
    )
    inputs = SimpleNamespace(
        recipe=recipe, metadata=metadata, task=task, starting_point=None, teacher=None
    )
    return build_pretrainer(inputs)


def batch_of(model: keras.Model, rows: int, length: int, predictions: int) -> tuple:
    """Returns a random batch for the objective of a model."""
    inputs, targets, weights = synthetic_batches(model.encoder.config, rows, length, predictions)[0]
    if "generator" in model.kind.heads:
        inputs["masked_lm_ids"] = inputs["sampling_draws"] = targets["masked_lm"]
        inputs["masked_lm_weights"] = weights["masked_lm"]
        targets["replaced_token"] = inputs["input_mask"]
        weights["replaced_token"] = inputs["input_mask"].astype("float32")
    outputs = model.loss
    return inputs, *({name: each[name] for name in outputs} for each in (targets, weights))


def compiled_step(model: keras.Model, batch: tuple):
    """Returns the program of a training step and the seconds of its compilation."""
    mesh = Mesh(topologies.get_topology_desc(TOPOLOGY, "tpu").devices, "batch")

    def shapes(arrays, *axes):
        sharding = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.tree.map(
            lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding), arrays
        )

    model.optimizer.build(model.trainable_variables)
    groups = [model.trainable_variables, model.non_trainable_variables]
    groups += [model.optimizer.variables, model.metrics_variables]
    state = tuple(shapes([variable.value for variable in group]) for group in groups)
    start = time.perf_counter()
    step = jax.jit(model.train_step, donate_argnums=0)
    program = step.lower(state, shapes(batch, "batch")).compile()
    return program, time.perf_counter() - start


def row(recipe: PretrainRecipe, length: int) -> str:
    model = pretrainer(recipe, length)
    predictions = recipe.masking_policy(max_length=length).max_predictions
    model.test_on_batch(*batch_of(model, 4, 16, 2))  # creates the variables of the metrics
    batch = batch_of(model, recipe.batch_size, length, predictions)
    line = f"{f'{recipe.batch_size} x {length}':>16}"
    try:
        program, seconds = compiled_step(model, batch)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return f"{line}  does not fit: {str(error).splitlines()[0]}"
    memory = program.memory_analysis()
    total = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    total += memory.output_size_in_bytes - memory.alias_size_in_bytes
    sizes = memory.argument_size_in_bytes, memory.temp_size_in_bytes, total
    line += "".join(f"{size / 2**30:>16.2f}" for size in sizes)
    return f"{line}{program.cost_analysis()['flops'] / 1e12:>16.3f}{seconds:>16.0f}"


def distinct(names: list[str]) -> list[str]:
    """Returns the first of the recipes with the same size and length."""
    first = {(PRETRAIN[name].size, LENGTHS.get(name)): name for name in reversed(names)}
    return [name for name in names if name in first.values()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", choices=PRETRAIN, help="default: every size and length once")
    parser.add_argument("--batch-size", type=int, help="of all chips (default: the recipe's)")
    parser.add_argument("--max-length", type=int, help="tokens (default: the recipe's)")
    arguments = parser.parse_args()
    keras.config.set_dtype_policy("mixed_bfloat16")
    print(f"{'':<14}" + "".join(f"{head:>16}" for head in HEADS))
    for name in [arguments.recipe] if arguments.recipe else distinct(list(PRETRAIN)):
        recipe = PRETRAIN[name]
        part = recipe.batch_size // recipe.gradient_accumulation_steps
        recipe = dataclasses.replace(
            recipe, batch_size=arguments.batch_size or part, gradient_accumulation_steps=1
        )
        length = arguments.max_length or LENGTHS.get(name, 128)
        print(f"{name:<14}{row(recipe, length)}", flush=True)


if __name__ == "__main__":
    main()
