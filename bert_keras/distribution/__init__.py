"""What Keras' trainer lacks for the global batch: losses over all replicas and batches in parts."""
