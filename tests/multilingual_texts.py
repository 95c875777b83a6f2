"""Sentences in several scripts, and their decomposed forms."""

import unicodedata

SENTENCES = [
    "나는 오늘 아침에 학교에 갔다.",
    "한국어 문장을 토큰으로 나누는 방법을 배웁니다.",
    "이 영화는 정말 재미있었고, 배우들의 연기도 훌륭했어요!",
    "서울의 인구는 약 940만 명이다.",
    "값이 싸고 맛도 좋은데 왜 별점이 낮은지 모르겠다ㅋㅋㅋ",
    "서울(Seoul)에서 부산까지 KTX로 2시간 30분 걸린다.",
    "大韓民國 국회(國會)에서는 漢字와 한글을 함께 쓴다. 音\uf914\u3164",
    "The weather is nice today, isn't it?",
    "She paid $1,299.50 for the laptop on 3/14/2024.",
    "我昨天在北京大学图书馆看书。",
    "這部電影的結局讓我很驚訝。",
    "これは日本語のテストです。カタカナとﾊﾝｶｸも。",
    "ذهبتُ إلى المكتبةِ أمسِ لأقرأَ كتابًا.",
    "اللغة العربية جميلة، أليس كذلك؟",
    "วันนี้อากาศดีมาก เราไปเที่ยวทะเลกันเถอะ",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "मैं हर दिन हिन्दी सीखता हूँ।",
    "Ça coûte 12 € — déjà vu, naïve façade, Œuvre ﬁnale №5.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Tiếng Việt có nhiều dấu thanh: ế, ộ, ữ, ặ.",
    "שָׁלוֹם עוֹלָם",
    "Wow 😀🎉👍🏽 👨‍👩‍👧‍👦 🇰🇷 ❤️ 1️⃣ ☕",
    "ｆｕｌｌｗｉｄｔｈ　ＴＥＸＴ ２０２４ ①②③ ㈜한국 ㎏",
]
DECOMPOSED = [unicodedata.normalize("NFD", each) for each in SENTENCES]
