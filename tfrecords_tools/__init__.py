"""Text files to TFRecords of masked and next-sentence examples, offline."""
