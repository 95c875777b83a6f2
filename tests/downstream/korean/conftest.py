"""Small files of each Korean task in the official layout; every sentence was invented here."""

import json
import re

import keras
import pytest

from bert_keras import BertEncoder
from bert_keras.config import BertConfig
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOPICS = [("국회 예산안 오늘 표결", "정치"), ("연장 끝에 2대1 승리", "스포츠")]
PAIRS = [
    ("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다.", 4.571428571428571, "entailment"),
    ("방이 깨끗했습니다.", "방이 더러웠습니다.", 1.0, "contradiction"),
    ("아침에 비가 왔다.", "우산이 많이 팔렸다.", 3.0, "neutral"),
]
REVIEWS = [('배우가 "정말" 좋았다', "1"), ("두 시간이 아깝다", "0"), ("", "0"), ("또 볼래요", "1")]

ITEMS: dict[str, list[dict]] = {"ynat": [], "klue-sts": [], "klue-nli": []}  # of KLUE's files
for title, label in TOPICS:
    ITEMS["ynat"].append({"title": title, "label": label, "annotations": {"n": [1]}})
for one, two, score, label in PAIRS:
    labels = {"label": 1, "real-label": score}
    ITEMS["klue-sts"].append({"sentence1": one, "sentence2": two, "labels": labels})
    ITEMS["klue-nli"].append({"premise": one, "hypothesis": two, "gold_label": label})
CONTEXT = "한들마을 도서관은 2019년 5월에 문을 열었다. 책은 3만 권이다."
QUESTIONS = [("언제 열었나?", "2019년 5월"), ("책은 몇 권인가?", "3만 권")]


def questions(id_name: str, *impossible: dict) -> str:
    """Returns a file in SQuAD's format."""
    possible = []
    for number, (question, text) in enumerate(QUESTIONS):
        answers = [{"text": text, "answer_start": CONTEXT.index(text)}]
        possible.append({id_name: f"q{number}", "question": question, "answers": answers})
    paragraph = {"context": CONTEXT, "qas": [*possible, *impossible]}
    values = {"version": "x", "data": [{"title": "도서관", "paragraphs": [paragraph]}]}
    return json.dumps(values, ensure_ascii=False)


IMPOSSIBLE = {"guid": "q2", "question": "관장은 누구인가?", "is_impossible": True, "answers": []}

# Each entity is "<text:TYPE>".
TAGGED = ["<한들마을:LC> 도서관은 <2019년 5월:DT>에 열었다.", "<김나리:PS>가 <두 권:QT>을 빌렸다."]


def tagged_characters(sentence: str) -> list[tuple[str, str]]:
    rows = []
    for entity, kind, other in re.findall(r"<([^:]+):(\w+)>|([^<])", sentence):
        text = entity or other
        tags = [f"B-{kind}", *[f"I-{kind}"] * (len(text) - 1)] if kind else ["O"]
        rows += zip(text, tags, strict=True)
    return rows


KLUE_NER = "## 컬럼명 : CHAR\tNE_TAG\n" + "\n".join(
    f"## klue-ner-v1_x_{number}\t{sentence}\n"
    + "".join(f"{character}\t{tag}\n" for character, tag in tagged_characters(sentence))
    for number, sentence in enumerate(TAGGED)
)
NAVER_NER = (
    "한들마을 도서관은 2019년 5월에 열었다 .\tLOC-B O DAT-B DAT-I O O\n"
    "김나리가 책을 두 권 빌렸다 .\tPER-B O NUM-B NUM-I O O\n"
)


def tsv(header: str, rows) -> str:
    return "".join("\t".join(row) + "\n" for row in [header.split(), *rows])


NSMC = tsv("id document label", [(str(n), *row) for n, row in enumerate(REVIEWS)])
KORNLI = tsv("sentence1 sentence2 gold_label", [(one, two, label) for one, two, _, label in PAIRS])
KORSTS = tsv(
    "genre filename year id score sentence1 sentence2",
    [("main", "a", "2012", "1", f"{score:.3f}", one, two) for one, two, score, _ in PAIRS],
)
FILES = {
    **{
        f"{name}-v1.1/{name}-v1.1_{split}.json": json.dumps(items, ensure_ascii=False)
        for name, items in ITEMS.items()
        for split in ("train", "dev")
    },
    **{f"korquad/KorQuAD_v1.0_{split}.json": questions("id") for split in ("train", "dev")},
    "klue-mrc-v1.1/klue-mrc-v1.1_train.json": questions("guid", IMPOSSIBLE),
    "klue-mrc-v1.1/klue-mrc-v1.1_dev.json": questions("guid", IMPOSSIBLE),
    **{f"klue-ner-v1.1/klue-ner-v1.1_{split}.tsv": KLUE_NER for split in ("train", "dev")},
    **{f"naver-ner/{split}.tsv": NAVER_NER for split in ("train", "test")},
    **{f"nsmc/ratings_{split}.txt": NSMC for split in ("train", "test")},
    **{f"KorNLI/{x}.ko.tsv": KORNLI for x in ("multinli.train", "xnli.dev", "xnli.test")},
    **{f"KorSTS/sts-{split}.tsv": KORSTS for split in ("train", "dev", "test")},
}
CHARACTERS = sorted({character for text in FILES.values() for character in text if character > " "})
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *CHARACTERS, *(f"##{each}" for each in CHARACTERS)))


@pytest.fixture
def korean_folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "korean" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "korean"


@pytest.fixture
def encoder(tmp_path):
    """The folder of a tiny encoder with random weights."""
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_positions": 64}
    config = BertConfig(vocab_size=len(VOCABULARY), **sizes)
    keras.utils.set_random_seed(1)
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    return BertEncoder(config).save_pretrained(tmp_path / "encoder", tokenizer=tokenizer)
