"""The contract of the records, their reader, the masking policy, length buckets."""
