"""Reads corpora: files, folders and TFDS names as units of work and lines of text."""
