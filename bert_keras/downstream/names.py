"""Lists other names of tasks and their settings; imports neither Keras nor TensorFlow."""

# Name of the ecosystem -> name in `downstream.catalog.TASKS`
ALIASES = {
    "text-classification": "classification",
    "token-classification": "ner",
    "question-answering": "squad1",
    "sentence-similarity": "sentence-pairs",
}

_ANSWERS = ("stride", "max_question_length", "max_answer_length", "num_best", "null_threshold")
_TABLE = ("kind", "text_columns", "label_column")
_EMBEDDINGS = ("loss", "dimensions", "truncate_dim", "pooling")
# Task -> its settings beside `max_length`, which every task has
SETTINGS = {
    **dict.fromkeys(("squad1", "squad2"), ("version", *_ANSWERS)),
    **dict.fromkeys(("korquad", "klue-mrc"), _ANSWERS),
    "ner": ("context",),
    "ner-features": ("context", "layers", "lstm_units"),
    **dict.fromkeys(("classification", "multi-label", "regression"), _TABLE),
    "sentence-pairs": (*_EMBEDDINGS, "text_columns", "score_column", "max_score"),
    "retrieval": (
        *_EMBEDDINGS,
        *("query_column", "positive_column", "negative_columns"),
        *("query_prompt", "passage_prompt", "cutoff"),
    ),
}
