"""Training on several devices: strategies, global losses and gradient accumulation."""

import os

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def has_workers(strategy: str = "auto") -> bool:
    """Returns whether a strategy or the environment asks for several workers."""
    variables = {"TF_CONFIG", "JAX_COORDINATOR_ADDRESS"}
    return strategy == "multiworker" or not variables.isdisjoint(os.environ)
