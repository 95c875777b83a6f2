"""The records of `build`, made by Apache Beam for a corpus beyond one machine."""

from tfrecords_tools.beam.build import build_on_beam

__all__ = ["build_on_beam"]
