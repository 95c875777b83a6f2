"""Korean tasks: KLUE, NSMC, KorNLI, KorSTS, KorQuAD 1.0 and Naver NER, in their official files."""
