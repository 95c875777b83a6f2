"""Question answering in the format of SQuAD 1.1 and 2.0: data, encoding, predictions and scores."""
