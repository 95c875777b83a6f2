"""Korean tasks: KLUE, NSMC, KorNLI, KorSTS, KorQuAD 1.0 and Naver NER, in their official files.

KLUE's relation extraction, dependency parsing and dialogue state tracking are not included, because
they need marked texts or other heads.
"""
