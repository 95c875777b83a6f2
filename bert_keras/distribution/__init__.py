"""Training on several devices: strategies, losses of the global batch and batches in parts."""

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
