"""Writes the same records as `build` on Apache Beam, for a corpus too large for one machine."""
