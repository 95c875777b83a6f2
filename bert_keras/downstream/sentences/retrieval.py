"""Defines the task `retrieval`: embeddings that find the passages for a query."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.downstream.classification import FILES
from bert_keras.downstream.label_kinds import Number
from bert_keras.downstream.sentences.encoding import (
    DistinctSentenceGroups,
    EncodedSentences,
    encoded_groups,
    encoded_sentences,
)
from bert_keras.downstream.sentences.queries import (
    QueryExample,
    Ranking,
    RetrievedPassages,
    read_rankings,
    relevant_passages,
    write_rankings,
)
from bert_keras.downstream.sentences.ranking import (
    ranked,
    ranking_scores,
    triplet_accuracy,
    unit_vectors,
)
from bert_keras.downstream.sentences.simcse import sentences
from bert_keras.downstream.sentences.task import Losses, SentenceTask, required_text, score_name
from bert_keras.downstream.table import table_rows
from bert_keras.downstream.task import (
    Encoded,
    Outputs,
    data_files,
    needs_labels,
    no_labels_error,
)
from bert_keras.downstream.tfds import is_tfds, tfds_files
from bert_keras.embedding import EmbeddingConfig
from bert_keras.errors import InputError, check_least, check_unused, counted
from bert_keras.files import StrPath
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.training.sentence_losses import (
    MarginMSELoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)


@dataclass(frozen=True)
class EncodedCorpus(EncodedSentences):
    """The distinct texts of queries and passages, one in each row."""

    corpus: tuple[str, ...]  # the distinct passages; they are the first rows
    query_rows: Sequence[int]  # the row of the query of each example
    passage_rows: Sequence[Sequence[int]]  # the rows of the passages of each example


@dataclass(frozen=True, kw_only=True)
class RetrievalTask(SentenceTask[QueryExample, RetrievedPassages]):
    """Retrieval of passages for queries, such as questions and answers.

    The corpus of an evaluation consists of the distinct passages of its file, and of the texts of
    the file `corpus`. A passage is relevant for a query if a row has it as the positive of the
    query.
    """

    query_column: str = "query"
    positive_column: str = "positive"
    negative_columns: tuple[str, ...] = ()
    # A teacher's score of the positive minus that of each negative, for the loss "margin-mse".
    margin_columns: tuple[str, ...] = ()
    query_prompt: str = ""  # text before each query, such as "query: "
    passage_prompt: str = ""  # text before each passage, such as "passage: "
    # Further passages to rank: a .txt file with one on each line, or a table with a column "text".
    corpus: str = ""
    cutoff: int = 10  # the number of passages of a ranking
    # "ranking" compares a query with all passages of the batch, "triplet" with its negative.
    loss: str = "ranking"

    prediction_file: ClassVar[str] = "predictions.jsonl"
    losses: ClassVar[Losses] = {
        "ranking": MultipleNegativesRankingLoss,
        "triplet": TripletLoss,
        "margin-mse": MarginMSELoss,
    }

    @property
    def metric(self) -> str:
        return f"ndcg@{self.cutoff}"

    def __post_init__(self):
        super().__post_init__()
        check_least(self, 1, "cutoff")
        num_negatives = len(self.negative_columns)
        if self.loss == "triplet" and num_negatives != 1:
            raise InputError(
                f"negative_columns has {num_negatives} names; the loss triplet expects 1"
            )
        if self.loss != "margin-mse":
            check_unused(self, "margin_columns", reason="without the loss margin-mse")
        elif not len(self.margin_columns) == num_negatives > 0:
            raise InputError(
                f"margin_columns has {counted(len(self.margin_columns), 'name')} and "
                f"negative_columns has {num_negatives}; the loss margin-mse expects as many of "
                "both, at least 1"
            )

    def embedding(self, source: ModelMetadata) -> EmbeddingConfig:
        """Returns the embedding of the model, whose prompts are those of the task."""
        embedding = super().embedding(source)
        prompts = {"query": self.query_prompt, "document": self.passage_prompt}
        if not any(prompts.values()):
            return embedding
        prompts = {**embedding.prompts, **prompts}
        return dataclasses.replace(embedding, prompts=prompts, includes_prompt=True)

    def files(self, data: StrPath) -> dict[str, str]:
        """Returns the files of the splits "train", "dev" and, if it exists, "test".

        Files end in .tsv, .csv or .jsonl.
        """
        return tfds_files(data) if is_tfds(data) else data_files(data, names=FILES)

    def read(self, path: StrPath, *, split: str = "train") -> list[QueryExample]:
        """Reads queries and their passages; a row of "test" may have no positive.

        Raises:
            InputError: A text is empty, or a margin is missing or invalid.
        """
        is_labelled = needs_labels(split)
        passages = (self.positive_column, *self.negative_columns)
        margins = self.margin_columns if split == "train" else ()
        columns = (self.query_column, *(passages if is_labelled else ()), *margins)
        examples = []
        for location, row in table_rows(path, columns=columns):
            is_complete = is_labelled or row.get(self.positive_column)
            names = [name for name in passages if name in row] if is_complete else []
            examples.append(
                QueryExample(
                    required_text(row, self.query_column, location=location),
                    tuple(required_text(row, name, location=location) for name in names),
                    tuple(Number().read(row[name], location=location) for name in margins),
                    location,
                )
            )
        return examples

    def encode(self, examples: Sequence[QueryExample], tokenizer: TextTokenizer) -> Encoded:
        """Encodes the queries with their passages; a batch has inputs of shape [B, G, T]."""
        margins = np.array([each.margins for each in examples], np.float32)
        return encoded_groups(
            [
                (self.query_prompt + each.query, *(self.passage_prompt + p for p in each.passages))
                for each in examples
            ],
            margins if margins.shape[1] else np.zeros(len(examples), np.float32),
            tokenizer,
            max_length=self.max_length,
            layout=DistinctSentenceGroups,
        )

    def encode_to_score(
        self, examples: Sequence[QueryExample], tokenizer: TextTokenizer
    ) -> EncodedCorpus:
        """Encodes each distinct text as a row; the rows have no loss."""
        passages = [text for each in examples for text in each.passages]
        if self.corpus:
            passages += [text for _, text in sentences(self.corpus, column="text")]
        if not passages:
            file = examples[0].location.rpartition(", ")[0]
            raise InputError(f"{file} has no passages to rank; set corpus to a file of passages")
        corpus = {text: row for row, text in enumerate(dict.fromkeys(passages))}
        queries = dict.fromkeys(each.query for each in examples)
        queries = {text: row for row, text in enumerate(queries, start=len(corpus))}
        texts = [self.passage_prompt + text for text in corpus]
        texts += [self.query_prompt + text for text in queries]
        encoded = encoded_sentences(texts, tokenizer, max_length=self.max_length)
        return EncodedCorpus(
            **vars(encoded),
            corpus=tuple(corpus),
            query_rows=[queries[each.query] for each in examples],
            passage_rows=[[corpus[text] for text in each.passages] for each in examples],
        )

    def predictions(
        self, examples: Sequence[QueryExample], encoded: EncodedCorpus, outputs: Outputs
    ) -> list[RetrievedPassages]:
        vectors = np.asarray(outputs)
        rankings = self._rankings(encoded, vectors)
        smaller = {
            size: self._rankings(encoded, vectors[:, :size])
            for size in self.smaller_dimensions(vectors.shape[1])
        }
        return [
            RetrievedPassages(ranking, {size: cut[row] for size, cut in smaller.items()})
            for row, ranking in enumerate(rankings)
        ]

    def _rankings(self, encoded: EncodedCorpus, vectors: np.ndarray) -> list[Ranking]:
        units, num_passages = unit_vectors(vectors), len(encoded.corpus)
        indices, cosines = ranked(units[num_passages:], units[:num_passages], most=self.cutoff)
        return [
            Ranking(
                tuple(encoded.corpus[index] for index in indices[query - num_passages]),
                tuple(cosines[query - num_passages].tolist()),
                tuple((units[passages] @ units[query]).tolist()),
            )
            for query, passages in zip(encoded.query_rows, encoded.passage_rows, strict=True)
        ]

    def check_labels(self, examples: Sequence[QueryExample]) -> None:
        for each in examples:
            if not each.passages:
                raise no_labels_error(each.location)

    def score(
        self, examples: Sequence[QueryExample], predictions: Sequence[RetrievedPassages]
    ) -> dict[str, float]:
        """Returns the scores of `ranking_scores` over distinct queries, and `triplet_accuracy` if
        there are negatives; all of them also for each smaller size, as `ndcg@10_64d`.
        """
        self.check_labels(examples)
        scores = self._scores(examples, [each.ranking for each in predictions])
        for size in predictions[0].smaller:
            cut = self._scores(examples, [each.smaller[size] for each in predictions])
            scores |= {score_name(name, size): value for name, value in cut.items()}
        return scores

    def _scores(
        self, examples: Sequence[QueryExample], rankings: Sequence[Ranking]
    ) -> dict[str, float]:
        relevant = relevant_passages(examples)
        found = dict(zip((each.query for each in examples), rankings, strict=True))
        scores = ranking_scores(
            [relevant[query] for query in found],
            [ranking.passages for ranking in found.values()],
            cutoff=self.cutoff,
        )
        triplets = [each.example_cosines for each in rankings if len(each.example_cosines) > 1]
        return scores | ({"triplet_accuracy": triplet_accuracy(triplets)} if triplets else {})

    def write_predictions(
        self,
        path: StrPath,
        examples: Sequence[QueryExample],
        predictions: Sequence[RetrievedPassages],
    ) -> None:
        """Writes a JSON object for each example: the query, the nearest passages and cosines."""
        write_rankings(path, examples, [each.ranking for each in predictions])

    def read_predictions(
        self, path: StrPath, examples: Sequence[QueryExample]
    ) -> list[RetrievedPassages]:
        """Reads the rankings of a file, without those of smaller sizes."""
        return [RetrievedPassages(each) for each in read_rankings(path, examples)]


RETRIEVAL_TASK = RetrievalTask(name="retrieval")
