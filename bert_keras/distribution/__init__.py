"""Training on several devices: strategies, global losses and gradient accumulation."""

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
