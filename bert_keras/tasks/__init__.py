"""What a task reads, how it is labelled and scored."""
