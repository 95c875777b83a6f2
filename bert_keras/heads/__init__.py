"""Hidden states to logits, one head a file."""
