"""The rules of our English that a program can check; CONTRIBUTING has the others."""

import re
from collections.abc import Iterator

from tests.language.texts import Text

MAX_WORDS = 30  # of a sentence in help and in messages

# A clause without a noun as the subject of a sentence. A question may start so.
HEADLESS_START = re.compile(r"(?:^|[:;] )(?:what|which|who|whom|whose|whoever|whatever|whichever)\b", re.IGNORECASE)
# The same as an object. `who` has another use: "people who run Karmada".
HEADLESS_OBJECT = re.compile(
    r"\b(?:what(?!-if)|whatever|whoever|(?:about|as|at|by|for|from|is|of|on|to|with) who)\b", re.IGNORECASE
)
OUTSIDE = re.compile(
    r"\b(?:research|seed|issue|finding)s? \d|\.\./shared|\bshared/(?:cases|research|seeds)|\b(?:language|design|style)\.md\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z`\"(])")
# Abbreviations do not end a sentence.
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|vs|etc|cf)\.")


def find_faults(text: Text) -> Iterator[str]:
    """Yield a description of each fault in a text."""
    for sentence in split_sentences(text.words):
        is_question = sentence.rstrip("\"') ").endswith("?")
        if not is_question and HEADLESS_START.search(sentence):
            yield f"a clause without a noun is the subject, name the thing or the actor: {quote(sentence)}"
        elif not is_question and HEADLESS_OBJECT.search(sentence):
            yield f"a clause without a noun is the object, name the thing or the actor: {quote(sentence)}"
        if text.kind in {"help", "message"} and count_words(sentence) > MAX_WORDS:
            yield f"{count_words(sentence)} words, split it into sentences of at most {MAX_WORDS}: {quote(sentence)}"
        if OUTSIDE.search(sentence):
            yield f"refers to a document outside this repository, cite upstream, an RFC or a KEP: {quote(sentence)}"


def split_sentences(words: str) -> list[str]:
    """Return the sentences of a text."""
    return SENTENCE_END.split(ABBREVIATIONS.sub("X", words))


def count_words(sentence: str) -> int:
    """Count words; punctuation alone is none."""
    return len(re.findall(r"\S*\w\S*", sentence))


def quote(sentence: str) -> str:
    """Shorten a sentence for a line of output."""
    return sentence if len(sentence) <= 120 else f"{sentence[:117]}..."
