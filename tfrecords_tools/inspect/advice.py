"""Formats the report on the survey of a corpus, with warnings about likely mistakes."""

from collections.abc import Iterator

import numpy as np

from bert_keras.text.vocab import Vocabulary
from tfrecords_tools.inspect.stats import Histogram, text_bars
from tfrecords_tools.inspect.survey import SHORTEST_REPEAT, Survey

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
IN_OTHER_CASE = 0.01  # difference of the shares of [UNK] between both cases
NUM_EXAMPLES = 5


def report(survey: Survey) -> str:
    """Returns the counts of the corpus, the expected records, and the warnings as text."""
    warnings = [f"warning: {warning}" for warning in warnings_of(survey)]
    blocks = ["\n".join(_facts(survey)), *_histograms(survey)]
    if survey.forecasts:
        blocks.append("\n".join(_expected(survey)))
    elif not survey.vocabulary:
        blocks.append("Give a vocabulary by --vocab to learn of [UNK], padding and labels.")
    return "\n\n".join([*blocks, *(warnings or ["Nothing looks wrong."])])


def _facts(survey: Survey) -> Iterator[str]:
    where = "" if survey.is_whole else f" of {survey.num_bytes / 1e6:,.2f} MB, spread evenly"
    yield f"{'text read':<24}{survey.text_bytes / 1e6:>12,.2f} MB{where}"
    counts = {
        "documents": len(survey.document_sentences),
        "lines": survey.lines,
        "sentences": sum(survey.document_sentences),
        "pieces": survey.pieces,
    }
    for name, count in counts.items():
        if count:
            yield f"{name:<24}{count:>12,}{_in_all(survey, count)}"
    shares = {}
    if survey.pieces:
        shares["[UNK] of the pieces"] = survey.unknown / survey.pieces
        if survey.unknown_in_case:
            other = "with" if survey.settings.lowercase else "without"
            shares[f"  {other} capitals"] = _unknown_rates(survey)[1]
        shares["sentences over a record"] = _long_sentences(survey)
    shares["repeated lines"] = _repeated(survey)
    shares["lines with markup"] = survey.lines_with_markup / survey.lines
    for name, share in shares.items():
        yield f"{name:<24}{share:>12.2%}"


def _in_all(survey: Survey, count: int) -> str:
    """Returns the estimate for the whole corpus, or "" if its size does not allow one."""
    if survey.is_whole or survey.is_compressed:
        return ""
    estimate = count * survey.num_bytes / survey.text_bytes
    return f", about {float(f'{estimate:.2g}'):,.0f} in all"


def _histograms(survey: Survey) -> Iterator[str]:
    sizes = np.ceil(np.log2(np.array(survey.document_sentences) + 1)).astype(int) - 1
    names = ["1", *(f"{1 << n}-{(2 << n) - 1}" for n in range(1, int(sizes.max()) + 1))]
    counts = np.bincount(sizes, minlength=len(names))
    yield text_bars(Histogram("sentences in a document", "documents", counts, tuple(names)))
    if survey.sentence_pieces:
        longest = survey.settings.max_length
        counts = np.zeros(longest + 1, np.int64)
        for length, count in survey.sentence_pieces.items():
            counts[min(length, longest)] += count
        yield text_bars(Histogram(f"pieces in a sentence, up to {longest}", "sentences", counts))


def _expected(survey: Survey) -> Iterator[str]:
    columns = ("records", "label 1", "padding", "too long", "cut off")
    head = f"at {survey.settings.max_length} positions, a pass"
    yield f"{head:<28}" + "".join(f"{column:>10}" for column in columns)
    for name, found in survey.forecasts.items():
        label = found.labels_one / found.sequences if found.labels_one else None
        shares = "".join(
            f"{share:>10.2%}" if share is not None else f"{'-':>10}"
            for share in (label, found.padding, found.cut, found.lost)
        )
        yield f"  {name:<26}{found.records:>10,}{shares}"


def warnings_of(survey: Survey) -> Iterator[str]:
    """Yields warnings; each states what was found, its effect, and what to do."""
    yield from _about_documents(survey)
    yield from _about_text(survey)
    if survey.vocabulary and survey.pieces:
        yield from _about_vocabulary(survey, survey.vocabulary)
        yield from _about_records(survey)
    for remark in survey.repairs.remarks():
        yield f"{remark[0].upper()}{remark[1:]}."
    if survey.repairs.counts["lines_not_utf8_replaced"]:
        yield (
            "Lines that are not UTF-8 stop a build, unless it is told --errors skip or replace. "
            "Better convert the file from the encoding that it has."
        )


def _about_documents(survey: Survey) -> Iterator[str]:
    sizes = survey.document_sentences
    singles = sizes.count(1) / len(sizes)
    if singles >= SINGLE_SENTENCES and len(sizes) > 1:
        yield (
            f"{singles:.0%} of the documents have one sentence. A blank line ends a document: is "
            "there one between all sentences or paragraphs? Then hardly any sentence has a true "
            "next one; remove the blank lines inside of documents."
        )
    if survey.is_whole and len(sizes) == 1:
        yield (
            "There is one document only. Next sentence prediction takes random next sentences from "
            "other documents; put a blank line between documents, or each in a file of its own."
        )
    elif survey.is_whole and len(sizes) < FEW_DOCUMENTS:
        yield (
            f"There are only {len(sizes)} documents, so random next sentences come from few texts. "
            "Is a blank line missing between documents?"
        )
    if survey.longest_document > LONG_DOCUMENT or survey.documents_cut > 0.9 * len(sizes):
        yield (
            f"The longest document has over {survey.longest_document / 1e6:,.1f} million "
            "characters, more than a long novel or all that was read of it. Are the blank lines "
            "between documents missing?"
        )


def _about_text(survey: Survey) -> Iterator[str]:
    if survey.lines_wrapped / survey.lines >= WRAPPED:
        yield (
            f"In {survey.lines_wrapped / survey.lines:.0%} of the lines a sentence goes on that "
            "began in the line before, as in text of a fixed width. The end of a line is taken for "
            "the end of a sentence; join the lines of a paragraph first."
        )
    if survey.letters / survey.characters < LETTERS:
        yield (
            f"Only {survey.letters / survey.characters:.0%} of the characters are letters. Is this "
            "running text, and not tables, numbers or code?"
        )
    if survey.lines_with_markup / survey.lines >= MARKUP:
        yield (
            f"{survey.lines_with_markup / survey.lines:.1%} of the lines hold markup (<b>, &amp;, "
            "[[link]], == title ==). The model would learn it as if it were words; take it out "
            "first, for Wikipedia with wikiextractor."
        )
    repaired = survey.repairs.counts["lines_not_utf8_replaced"]
    if (survey.lines_misread - repaired) / survey.lines >= MISREAD:
        yield (
            f"{survey.lines_misread / survey.lines:.1%} of the lines look misread, as when é is "
            "Ã©. Convert the source to UTF-8 once more, from the encoding that it really has."
        )
    if _repeated(survey) >= REPEATED:
        yield (
            f"{_repeated(survey):.1%} of the lines (of {SHORTEST_REPEAT} characters or more) stood "
            "there before: menus, licences, a file given twice? The model would learn them by "
            "heart; keep one of each."
        )


def _about_vocabulary(survey: Survey, vocabulary: Vocabulary) -> Iterator[str]:
    lowercase = survey.settings.lowercase
    given, other = _unknown_rates(survey)
    if lowercase and _capitals(vocabulary) >= CAPITALS:
        yield (
            f"{_capitals(vocabulary):.0%} of the vocabulary's pieces have capitals, but the "
            "text is put into lower case, which never uses them. This is a cased vocabulary: "
            "add --cased."
        )
    elif not lowercase and given - other >= IN_OTHER_CASE:
        yield (
            f"{given:.1%} of the pieces are [UNK], but only {other:.1%} if the text is put into "
            "lower case. This is an uncased vocabulary: leave out --cased."
        )
    elif survey.unknown / survey.pieces >= UNKNOWN:
        words = [word for word, _ in survey.unknown_words.most_common(NUM_EXAMPLES)]
        yield (
            f"{survey.unknown / survey.pieces:.1%} of the pieces are [UNK], words that the "
            f"vocabulary cannot spell ({', '.join(words)}). Is it of another language? "
            "bert-tfrecords vocab makes one of your own text."
        )


def _about_records(survey: Survey) -> Iterator[str]:
    if _long_sentences(survey) >= LONG_SENTENCES:
        yield (
            f"{_long_sentences(survey):.1%} of the sentences are longer than a record of "
            f"{survey.settings.max_length} positions and will be divided. Has the text full stops, "
            "and is --splitter that of its language?"
        )
    found = survey.forecasts.get(survey.settings.objective)
    if found and found.padding >= PADDING:
        yield (
            f"{found.padding:.0%} of all positions will be padding, on which training spends time "
            "for nothing, because documents are short. Take a smaller --max-length, the objective "
            "full-sentences, or several sequences a record."
        )


def _capitals(vocabulary: Vocabulary) -> float:
    """Returns the share of the tokens that do not occur in lower-cased text."""
    pieces = [piece for piece in vocabulary.pieces if not piece.startswith("[")]
    return sum(piece != piece.lower() for piece in pieces) / max(len(pieces), 1)


def _unknown_rates(survey: Survey) -> tuple[float, float]:
    """Returns the share of [UNK] in the case of the settings, and in the other case.

    Both are measured on a sample of the text.
    """
    found = survey.unknown_in_case
    if not found:  # only WordPiece vocabularies are read in both cases
        rate = survey.unknown / survey.pieces
        return rate, rate
    return found["unknown"] / found["pieces"], found["unknown_other"] / found["pieces_other"]


def _long_sentences(survey: Survey) -> float:
    count = sum(n for length, n in survey.sentence_pieces.items() if length > survey.longest)
    return count / survey.sentence_pieces.total()


def _repeated(survey: Survey) -> float:
    repeated, compared = survey.line_repeats.counts()
    return repeated / max(compared, 1)
