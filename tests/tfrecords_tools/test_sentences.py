import pytest

from tfrecords_tools import tokens as module
from tfrecords_tools.tokens import sentences, splitter

SENTENCES = {
    "en": [
        ["One sentence without an end"],
        ["It ends.", "It begins!", "Does it?", "Yes...", "So it does."],
        ["He said “No.”", "“Why?” she asked.", "(Nobody knew.)"],
        ['"Stop!" he cried.', '"No. Never. Go away." she said.', "He went."],
        ["Mr. Smith met Dr. Jones on Jan. 5 at St. Paul's.", "End."],
        ["J. R. R. Tolkien wrote.", "It was I.", "Then he slept."],
        ["He works at U.S. Steel in the U.S.", "He likes it.", "At 5 p.m. Mr. Jones left."],
        ["It cost 3.50 dollars, e.g. this.", "É was next.", "See https://a.b/c.d?e=f.", "So."],
        ["A ... pause, and more."],
        ["So it was.[1][2]", "Then it was not."],
        ["Olaf (born c. 995 in Oslo) was king.", "He died."],
    ],
    "zh": [["他走了。", "「好。」", "终"]],
    "ja": [["日本です。", "東京！", "「はい。」", "終"]],
    "hi": [["यह एक वाक्य है।", "यह दूसरा है।", "क्या?"]],
    "ar": [["هل هذا سؤال؟", "نعم.", "هذه جملة!", "وهذه؟"]],
    "de": [["Am 5. Mai kam z.B. Herr Dr. Müller.", "Er ging."]],
    "ko": [
        ["오늘은 비가 내렸다.", "우산이 없어서 옷이 젖었다!", "정말?"],
        ['그는 "비가 온다. 우산을 챙겨라."라고 말했다.', "나는 고개를 끄덕였다."],
        ["어머니는 “밥은 먹었니?”라며 웃으셨다.", "동생은 대답이 없었다."],
        ["그는 '그만.'이라는 말만 했다.", "“가지 마.”", "그 말이 끝이었다."],
        ["기온은 3.5도까지 떨어졌다.", "내일은 영하 12.7도로 더 춥겠다."],
        ["회의는 2023. 5. 12. 오후 3시에 열린다.", "자료를 읽어야 한다."],
        ["1. 먼저 물을 끓인다.", "2. 면을 넣는다."],
        ["가. 목적은 다음과 같다.", "나. 방법은 별표에 따른다."],
        ["음… 그럴 수도 있겠네요.", "그곳은 조용한 곳.", "일단 기다려 봅시다."],
        ["그는 졸업했다(1998년).", "이후 유학을 떠났다.", "v2.1부터 지원된다."],
        ["문장 부호가 없으면 나뉘지 않아요 다음 문장입니다"],
    ],
}


@pytest.mark.parametrize(
    ("language", "expected"), [(code, each) for code, texts in SENTENCES.items() for each in texts]
)
def test_texts_of_each_language_are_split(language, expected):
    joined = ("" if language in ("zh", "ja") else " ").join(expected)
    assert splitter(language)(joined) == expected


def test_a_long_quotation_is_split_and_its_marks_stay_with_their_sentences():
    expected = [
        "He rose.",
        "“Now hear me well.",
        *(f"Word {n} of the many words in it." for n in range(12)),
        "She said: ‘No.’",
        "‘Never?’ he asked.",
        "Am I heard?” he cried.",
        "“Yes!” they said.",
    ]
    plain = [each.translate(str.maketrans("“”‘’", "\"\"''")) for each in expected]
    for texts in (expected, plain):
        assert sentences(" ".join(texts)) == texts


@pytest.mark.parametrize(
    "line",
    [
        "  A b.  C d?\u3000E   f. g. H.”  ",
        "A\u00a0b.\u00a0C d.\u2028E\u0085f. \x1cG.\tH",
        "So said I\u00a0. And no more.",  # sentencex alone panics here
        "\x00. A b. \x00 \u200b. \ufeff C",
        "... !!! ??? . . . 。。",
        "1. One. 2. Two. * a * b a) c b) d",
        "(A b. (C d. [E f. {G h. “I j. ‘K l. «M n. 「O p.",
        "🙂. É. ß! ﬁ? 日。\u0301. A",
    ],
)
def test_sentences_contain_all_characters_of_the_line(line, monkeypatch):
    for window, long in [(2000, 300), (7, 3), (1, 1)]:
        monkeypatch.setattr(module, "WINDOW", window)
        monkeypatch.setattr(module, "LONG_QUOTATION", long)
        results = sentences(line)
        assert "".join("".join(results).split()) == "".join(line.split())
        assert all(each == each.strip() != "" for each in results)
