"""Named entity recognition: reads CoNLL files, encodes tagged words, and scores entities."""
