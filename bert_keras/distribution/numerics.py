"""Selects the precision of a run and makes its sums deterministic."""

import os
from pathlib import Path

import keras

from bert_keras.distribution import PRECISIONS
from bert_keras.errors import check_name

# The smallest hidden size for which "auto" selects bfloat16 on a processor: see
# docs/benchmarks/archive/pretraining.md, "bfloat16".
PROCESSOR_SIZE = 256
PROCESSORS = Path("/proc/cpuinfo")  # exists on Linux


def named_policy(name: str = "auto", *, hidden_size: int = 0) -> str:
    """Returns the name of a dtype policy for `keras.config.set_dtype_policy`.

    All policies keep the weights in float32; matrix products use the precision. "auto" selects
    bfloat16 on GPUs with compute capability 8.0 (A100) or higher, on TPUs, and with TensorFlow on
    processors with AVX512-BF16 or AMX for models of a `hidden_size` of at least `PROCESSOR_SIZE`;
    otherwise float32.
    """
    check_name(name, PRECISIONS, what="precision")
    if name != "auto":
        return name if name == "float32" else f"mixed_{name}"
    if keras.config.backend() == "jax":
        import jax

        pairs = [(each.platform, getattr(each, "compute_capability", 0)) for each in jax.devices()]
        is_faster = all(name == "tpu" or float(capability) >= 8 for name, capability in pairs)
    else:
        import tensorflow as tf

        is_faster = processor_has_bfloat16() and hidden_size >= PROCESSOR_SIZE
        if gpus := tf.config.list_physical_devices("GPU"):
            details = map(tf.config.experimental.get_device_details, gpus)
            is_faster = all(each.get("compute_capability", (0, 0)) >= (8, 0) for each in details)
    return "mixed_bfloat16" if is_faster else "float32"


def processor_has_bfloat16() -> bool:
    """Returns whether the processor has instructions for products in bfloat16."""
    flags = PROCESSORS.read_text().split() if PROCESSORS.exists() else []
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def add_in_one_order() -> None:
    """Makes sums on CPUs deterministic; call it before TensorFlow computes anything."""
    import tensorflow as tf

    # On GPUs, TensorFlow would reject some operations, and Keras would reject XLA.
    if not tf.config.list_physical_devices("GPU"):
        os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")
