"""What TensorBoard shows of a run besides its losses: norms, the machine's use, samples, words."""
