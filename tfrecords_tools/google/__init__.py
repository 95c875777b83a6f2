"""The records of the original writer, one for one: `write_google` and its `GoogleSettings`."""

from tfrecords_tools.google.settings import GoogleSettings
from tfrecords_tools.google.write import write_google

__all__ = ["GoogleSettings", "write_google"]
