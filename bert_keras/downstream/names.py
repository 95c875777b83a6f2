"""Lists other names of tasks; imports neither Keras nor TensorFlow."""

# Name of the ecosystem -> name in `downstream.catalog.TASKS`
ALIASES = {
    "text-classification": "classification",
    "token-classification": "ner",
    "question-answering": "squad1",
    "sentence-similarity": "sentence-pairs",
}
