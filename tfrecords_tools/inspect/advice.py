"""Formats the report on the survey of a corpus, with warnings about likely mistakes."""

from collections.abc import Iterator

import numpy as np

from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.histograms import Histogram, text_bars
from tfrecords_tools.inspect.survey import MIN_REPEATED_CHARACTERS, Survey

# Thresholds of the warnings. Wikipedia and novels are far below all of them.
SINGLE_SENTENCES = 0.5  # documents of one sentence
FEW_DOCUMENTS = 10
LONG_DOCUMENT = 5_000_000  # characters; a long novel has 3 million
UNKNOWN = 0.01  # of the tokens
REPEATED = 0.05  # of the lines
MARKUP = 0.02  # of the lines
MISREAD = 0.002  # of the lines
LETTERS = 0.4  # of the characters; in Hindi, whose vowels are marks, half are letters
WRAPPED = 0.5  # of the lines
LONG_SENTENCES = 0.05  # of the sentences
PADDING = 0.25  # of the positions
CAPITALS = 0.05  # of a vocabulary's tokens; an uncased one has very few
OTHER_CASE = 0.01  # difference of the rates of [UNK] between both cases
NUM_EXAMPLES = 5


def report(survey: Survey) -> str:
    """Returns the counts of the corpus, the expected records, and the warnings as text."""
    warnings = [f"warning: {warning}" for warning in warnings_of(survey)]
    blocks = ["\n".join(_count_lines(survey)), *_histograms(survey)]
    if survey.forecasts:
        blocks.append("\n".join(_forecast_lines(survey)))
    elif not survey.vocabulary:
        blocks.append("Name a vocabulary with --vocab to estimate [UNK], padding and labels.")
    return "\n\n".join([*blocks, *(warnings or ["Nothing looks wrong."])])


def _count_lines(survey: Survey) -> Iterator[str]:
    sample = "" if survey.is_complete else f" of {survey.num_bytes / 1e6:,.2f} MB, spread evenly"
    yield f"{'text read':<24}{survey.text_bytes / 1e6:>12,.2f} MB{sample}"
    counts = {
        "documents": len(survey.document_sentences),
        "lines": survey.lines,
        "sentences": sum(survey.document_sentences),
        "tokens": survey.tokens,
    }
    for name, count in counts.items():
        if count:
            yield f"{name:<24}{count:>12,}{_corpus_estimate(survey, count)}"
    rates = {}
    if survey.tokens:
        rates["[UNK] of the tokens"] = survey.unknown / survey.tokens
        if survey.unknown_in_case:
            other_case = "cased" if survey.settings.lowercase else "lower-cased"
            rates[f"  if {other_case}"] = _unknown_rates(survey)[1]
        rates["overlong sentences"] = _long_sentence_rate(survey)
    rates["repeated lines"] = _repeated_rate(survey)
    rates["lines with markup"] = survey.lines_with_markup / survey.lines
    for name, rate in rates.items():
        yield f"{name:<24}{rate:>12.2%}"


def _corpus_estimate(survey: Survey, count: int) -> str:
    """Returns the estimate for the whole corpus, or "" if its size does not allow one."""
    if survey.is_complete or survey.is_compressed:
        return ""
    estimate = count * survey.num_bytes / survey.text_bytes
    return f", about {float(f'{estimate:.2g}'):,.0f} in all"


def _histograms(survey: Survey) -> Iterator[str]:
    sizes = np.ceil(np.log2(np.array(survey.document_sentences) + 1)).astype(int) - 1
    names = ["1", *(f"{1 << n}-{(2 << n) - 1}" for n in range(1, int(sizes.max()) + 1))]
    counts = np.bincount(sizes, minlength=len(names))
    yield text_bars(Histogram("sentences in a document", "documents", counts, tuple(names)))
    if survey.sentence_tokens:
        limit = survey.settings.max_length
        counts = np.zeros(limit + 1, np.int64)
        for length, count in survey.sentence_tokens.items():
            counts[min(length, limit)] += count
        yield text_bars(Histogram(f"tokens in a sentence, up to {limit}", "sentences", counts))


def _forecast_lines(survey: Survey) -> Iterator[str]:
    columns = ("records", "label 1", "padding", "too long", "cut off")
    head = f"at {survey.settings.max_length} positions, one pass"
    yield f"{head:<28}" + "".join(f"{column:>10}" for column in columns)
    for name, forecast in survey.forecasts.items():
        label_rate = forecast.labels_one / forecast.sequences if forecast.labels_one else None
        rates = "".join(
            f"{rate:>10.2%}" if rate is not None else f"{'-':>10}"
            for rate in (label_rate, forecast.padding_rate, forecast.cut_rate, forecast.lost_rate)
        )
        yield f"  {name:<26}{forecast.records:>10,}{rates}"


def warnings_of(survey: Survey) -> Iterator[str]:
    """Yields warnings; each states the observation, its effect, and what to do."""
    yield from _document_warnings(survey)
    yield from _text_warnings(survey)
    if survey.vocabulary and survey.tokens:
        yield from _vocabulary_warnings(survey, survey.vocabulary)
        yield from _record_warnings(survey)
    for remark in survey.repairs.remarks():
        yield f"{remark[0].upper()}{remark[1:]}."
    if survey.repairs.counts["lines_decomposed"]:
        yield (
            "Records get decomposed characters composed (NFC), because a cased vocabulary reads "
            "them as [UNK]. A model does not compose the texts that it gets later: do it with "
            'unicodedata.normalize("NFC", text).'
        )
    if survey.repairs.counts["lines_not_utf8_replaced"]:
        yield (
            "Lines that are not UTF-8 stop a build without --errors skip or --errors replace. "
            "It is better to convert the file from its actual encoding."
        )


def _document_warnings(survey: Survey) -> Iterator[str]:
    sizes = survey.document_sentences
    singles = sizes.count(1) / len(sizes)
    if singles >= SINGLE_SENTENCES and len(sizes) > 1:
        yield (
            f"{singles:.0%} of the documents have one sentence. A blank line ends a document. Is "
            "there one after every sentence or paragraph? Then hardly any sentence has a true "
            "next sentence; remove the blank lines within documents."
        )
    if survey.is_complete and len(sizes) == 1:
        yield (
            "The corpus has only one document. Next sentence prediction takes random next "
            "sentences from other documents; put a blank line between documents, or each document "
            "in a separate file."
        )
    elif survey.is_complete and len(sizes) < FEW_DOCUMENTS:
        yield (
            f"The corpus has only {len(sizes)} documents; random next sentences come from them. "
            "Is a blank line missing between documents?"
        )
    if survey.longest_document > LONG_DOCUMENT or survey.documents_cut > 0.9 * len(sizes):
        yield (
            f"The longest document has over {survey.longest_document / 1e6:,.1f} million "
            "characters, more than a long novel or than the part that was read. Are the blank "
            "lines between documents missing?"
        )


def _text_warnings(survey: Survey) -> Iterator[str]:
    if survey.lines_wrapped / survey.lines >= WRAPPED:
        yield (
            f"{survey.lines_wrapped / survey.lines:.0%} of the lines continue a sentence of the "
            "preceding line, as in text of a fixed width. The end of a line ends a sentence; join "
            "the lines of each paragraph first."
        )
    if survey.letters / survey.characters < LETTERS:
        yield (
            f"Only {survey.letters / survey.characters:.0%} of the characters are letters. Is this "
            "running text, and not tables, numbers or code?"
        )
    if survey.lines_with_markup / survey.lines >= MARKUP:
        yield (
            f"{survey.lines_with_markup / survey.lines:.1%} of the lines contain markup (<b>, "
            "&amp;, [[link]], == title ==). The model would learn it as words; remove it first, "
            "for Wikipedia with wikiextractor."
        )
    repaired = survey.repairs.counts["lines_not_utf8_replaced"]
    if (survey.lines_misread - repaired) / survey.lines >= MISREAD:
        yield (
            f"{survey.lines_misread / survey.lines:.1%} of the lines look wrongly decoded, like "
            "Ã© instead of é. Convert the source to UTF-8 again, from its actual encoding."
        )
    if _repeated_rate(survey) >= REPEATED:
        yield (
            f"{_repeated_rate(survey):.1%} of the lines (of {MIN_REPEATED_CHARACTERS} characters "
            "or more) repeat an earlier line. Are these menus, licences, or copies of a "
            "file? The model would memorize them; keep one copy of each."
        )


def _vocabulary_warnings(survey: Survey, vocabulary: Vocabulary) -> Iterator[str]:
    lowercase = survey.settings.lowercase
    rate, other_rate = _unknown_rates(survey)
    if lowercase and _capitals_rate(vocabulary) >= CAPITALS:
        yield (
            f"{_capitals_rate(vocabulary):.0%} of the tokens of the vocabulary have capitals, "
            "which lower-cased text never contains. This is a cased vocabulary: add --cased."
        )
    elif rate - other_rate >= OTHER_CASE:
        remedy = "lower-cased. This is an uncased vocabulary: leave out --cased."
        if lowercase:
            remedy = "not lower-cased. This is a cased vocabulary: add --cased."
        only = f"but only {other_rate:.1%} if the text is {remedy}"
        yield f"{rate:.1%} of the tokens are [UNK], {only}"
    elif survey.unknown / survey.tokens >= UNKNOWN:
        words = [word for word, _ in survey.unknown_words.most_common(NUM_EXAMPLES)]
        yield (
            f"{survey.unknown / survey.tokens:.1%} of the tokens are [UNK], because the "
            f"vocabulary does not cover some words ({', '.join(words)}). Is it a vocabulary of "
            "another language? bert-tfrecords vocab learns one from your text."
        )


def _record_warnings(survey: Survey) -> Iterator[str]:
    if _long_sentence_rate(survey) >= LONG_SENTENCES:
        yield (
            f"{_long_sentence_rate(survey):.1%} of the sentences are longer than a record of "
            f"{survey.settings.max_length} positions and will be divided. Does the text have full "
            "stops, and does --splitter name its language?"
        )
    forecast = survey.forecasts.get(survey.settings.objective)
    if forecast and forecast.padding_rate >= PADDING:
        yield (
            f"{forecast.padding_rate:.0%} of all positions will be padding, because documents are "
            "short; training would waste time on it. Use a smaller --max-length, --objective "
            "full-sentences, or a larger --sequences-per-record."
        )


def _capitals_rate(vocabulary: Vocabulary) -> float:
    """Returns the fraction of the tokens that do not occur in lower-cased text."""
    tokens = [token for token in vocabulary.tokens if not token.startswith("[")]
    return sum(token != token.lower() for token in tokens) / max(len(tokens), 1)


def _unknown_rates(survey: Survey) -> tuple[float, float]:
    """Returns the rate of [UNK] in the case of the settings, and in the other case.

    Both are measured on a sample of the text.
    """
    counts = survey.unknown_in_case
    if not counts:  # only WordPiece vocabularies are read in both cases
        rate = survey.unknown / survey.tokens
        return rate, rate
    return counts["unknown"] / counts["tokens"], counts["unknown_other"] / counts["tokens_other"]


def _long_sentence_rate(survey: Survey) -> float:
    count = sum(n for length, n in survey.sentence_tokens.items() if length > survey.max_tokens)
    return count / survey.sentence_tokens.total()


def _repeated_rate(survey: Survey) -> float:
    repeated, compared = survey.line_repeats.counts()
    return repeated / max(compared, 1)
