"""Named entities: CoNLL files to sentences, sentences to labelled pieces, tags to a score."""
