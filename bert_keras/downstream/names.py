"""Lists the names of tasks; imports neither Keras nor TensorFlow."""

# The names of `downstream.catalog.TASKS`.
TASKS = {
    "cola": "GLUE: is a sentence acceptable",
    "sst2": "GLUE: is a review positive",
    "mrpc": "GLUE: do two sentences mean the same",
    "stsb": "GLUE: similarity of two sentences, 0 to 5",
    "qqp": "GLUE: are two questions the same",
    "mnli": "GLUE: entailment, neutral or contradiction",
    "qnli": "GLUE: does a sentence answer a question",
    "rte": "GLUE: entailment or not",
    "wnli": "GLUE: what a pronoun refers to",
    "squad1": "SQuAD 1.1: the span that answers a question",
    "squad2": "SQuAD 2.0: the span that answers a question, or no answer",
    "swag": "SWAG: one of four endings",
    "klue-tc": "KLUE: topic of a headline",
    "klue-sts": "KLUE: similarity of two sentences",
    "klue-nli": "KLUE: entailment, neutral or contradiction",
    "nsmc": "Naver movie reviews: positive or negative",
    "kornli": "KorNLI: entailment, neutral or contradiction",
    "korsts": "KorSTS: similarity of two sentences",
    "korquad": "KorQuAD 1.0: the span that answers a question",
    "klue-mrc": "KLUE: the span that answers a question, or no answer",
    "klue-ner": "KLUE: names in a sentence, by characters",
    "naver-ner": "Naver NER: names in a sentence, by words",
    "ner": "CoNLL files: names in a sentence",
    "ner-features": "CoNLL files: names in a sentence, by a BiLSTM over frozen features",
    "pos": "CoNLL files: parts of speech, or other tags of single words",
    "classification": "your table (.csv, .tsv, .jsonl): one label for a text or a pair",
    "multi-label": "your table: several labels",
    "regression": "your table: a number",
    "sentence-pairs": "your table: embeddings from pairs with a score",
    "retrieval": "your table: embeddings of queries and passages",
}

# Tasks that only `bert-keras evaluate` has, for pretrained models
ZERO_SHOT = {"blimp": "BLiMP: the right one of two sentences, by models without fine-tuning"}

# Name in Hugging Face's library -> name in `downstream.catalog.TASKS`
ALIASES = {
    "text-classification": "classification",
    "token-classification": "ner",
    "question-answering": "squad1",
    "sentence-similarity": "sentence-pairs",
}


def task_names() -> list[str]:
    """Returns the names of all tasks and their aliases."""
    return [*TASKS, *ZERO_SHOT, *ALIASES]
