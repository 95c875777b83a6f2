"""The verb inspect: what goes on inside of a model, as a page."""

import argparse
from collections.abc import Callable


def add_inspect(verb: Callable[..., argparse.ArgumentParser]) -> None:
    sub = verb(
        "inspect",
        _inspect,
        "Write a page of a text's attention and masked words, and of a word's vectors.",
        'bert-keras inspect runs/tiny/model "The capital of France is [MASK]." -o page.html\n'
        '  bert-keras inspect minilm "He sat by the river." "The water was cold." -o page.html\n'
        "  bert-keras inspect minilm --word bank --sentences banks.txt -o page.html",
    )
    sub.add_argument("model", metavar="MODEL_DIR", help="OUTPUT/model of a run, or a checkpoint "
                     "of any format (see convert)")  # fmt: skip
    sub.add_argument("texts", nargs="*", metavar="TEXT", help="one, or the two of a pair; without "
                     "a [MASK] each piece is masked in turn")  # fmt: skip
    sub.add_argument("-o", "--output", required=True, metavar="PAGE", help="an .html file")
    sub.add_argument("--top-k", type=int, default=10, metavar="N", help="the most probable pieces "
                     "of each masked place (default: 10)")  # fmt: skip
    sub.add_argument("--word", metavar="WORD", help="compare its vectors; with --sentences")
    sub.add_argument("--sentences", metavar="FILE", help="UTF-8, one sentence a line, WORD in "
                     "each")  # fmt: skip


def _inspect(arguments) -> None:
    from bert_keras.reports.inspection import inspect_texts

    inspect_texts(
        arguments.model,
        arguments.texts,
        output=arguments.output,
        word=arguments.word,
        sentences=arguments.sentences,
        num_pieces=arguments.top_k,
    )
    print(f"page: {arguments.output}")
