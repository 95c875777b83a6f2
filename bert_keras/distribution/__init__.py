"""What Keras' trainer lacks for the global batch: losses over all replicas and batches in parts."""

STRATEGIES = ("auto", "one", "mirrored", "multiworker", "tpu")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
