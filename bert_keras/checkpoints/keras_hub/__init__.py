"""Reads and writes the preset folders of KerasHub."""
