import pytest

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

NAMES = ["ada", "ben", "cy", "dora", "eli", "fay", "gus", "hana"]
VERBS = ["sees", "likes", "helps", "calls", "meets"]
THINGS = ["cats", "dogs", "maps", "songs", "stars", "boats", "lamps", "trees"]


@pytest.fixture
def corpus(tmp_path):
    """Two files, six documents of twenty lines; every line begins with a word of its document."""
    documents = []
    for number in range(6):
        lines = [
            f"doc{number} {NAMES[(number + line) % 8]} {VERBS[line % 5]} {THINGS[line % 7]}."
            f" And {NAMES[line % 8]} {VERBS[(number * line) % 5]} {THINGS[number]} too!"
            for line in range(20)
        ]
        documents.append("\n".join(lines))
    paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
    paths[0].write_text("\n\n".join(documents[:3]), encoding="utf-8")
    paths[1].write_text("\n\n\n".join(documents[3:]) + "\n", encoding="utf-8")
    return paths


@pytest.fixture
def vocabulary():
    words = [*NAMES, *VERBS, *THINGS, "and", "too", ".", "!", *(f"doc{n}" for n in range(6))]
    return Vocabulary((*SPECIAL_TOKENS, "[unused0]", *words))
