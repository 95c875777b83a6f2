"""Text to ids: vocabulary, tokenizer, packing."""
