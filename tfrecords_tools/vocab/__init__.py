"""A corpus in; a WordPiece vocabulary out."""
