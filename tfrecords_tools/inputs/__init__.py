"""Files, folders, TFDS names in; units of work and lines of text out."""
