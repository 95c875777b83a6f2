"""Measures how well sentence splitters find the boundaries of the sentences of a treebank.

Each text is a number of consecutive sentences of a Universal Dependencies file, joined by blanks. A
boundary is right if it is one of the treebank's. Without whitespace, texts and sentences have the
same characters, so that boundaries are compared as numbers of characters.

    python benchmarks/sentences.py ko_kaist-ud-test.conllu ko_gsd-ud-test.conllu \
        --splitters ko kss:split_sentences kiwi_splitter:sentences
"""

import argparse
import re
import time
from itertools import accumulate
from pathlib import Path

from tfrecords_tools.tokens import splitter

SENTENCES_PER_TEXT = 5


def boundaries(sentences: list[str]) -> set[int]:
    """Returns the ends of all sentences but the last one, in characters without white space."""
    return set(list(accumulate(len("".join(each.split())) for each in sentences))[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="CoNLL-U files")
    parser.add_argument("--splitters", nargs="+", help="as for bert-tfrecords build --splitter")
    parser.add_argument("--texts", type=int, default=200, help="largest number of texts of a file")
    arguments = parser.parse_args()
    print("| file | splitter | precision | recall | F1 | characters a second |")
    print("|---|---|---|---|---|---|")
    for file in arguments.files:
        sentences = re.findall(r"^# text = (.*)$", Path(file).read_text("utf-8"), re.M)
        starts = range(0, len(sentences) - SENTENCES_PER_TEXT + 1, SENTENCES_PER_TEXT)
        texts = [sentences[start : start + SENTENCES_PER_TEXT] for start in starts]
        for name in arguments.splitters:
            split = splitter(name)
            split(texts[0][0])  # loads what the splitter needs
            found = right = expected = characters = 0
            start = time.perf_counter()
            for each in texts[: arguments.texts]:
                text = " ".join(each)
                ours, theirs = boundaries(split(text)), boundaries(each)
                found, expected = found + len(ours), expected + len(theirs)
                right, characters = right + len(ours & theirs), characters + len(text)
            speed = characters / (time.perf_counter() - start)
            scores = right / found, right / expected, 2 * right / (found + expected)
            cells = " | ".join(f"{100 * score:.1f} %" for score in scores)
            print(f"| {Path(file).name} | `{name}` | {cells} | {speed:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
