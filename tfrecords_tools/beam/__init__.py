"""The records of `build`, made by Apache Beam for a corpus beyond one machine."""
