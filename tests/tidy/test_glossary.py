"""The glossary says everything once: a word stands there with one meaning, or its meanings are numbered."""

import re
from collections import Counter
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
SENSE = re.compile(r"^(.*) \((\d)\)$")


def words_of(text: str) -> list[str]:
    """Return the words that a glossary explains; a number stays with its word, other brackets are left out."""
    heads = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    bare = [re.sub(r" \((?!\d\))[^)]*\)", "", head) for head in heads]
    return [word.strip() for head in bare if head not in ("word", "---") for word in re.split(r"[,;]", head)]


def explained_twice(words: list[str]) -> list[str]:
    """Return the words that stand there more than once, and those whose numbers are not 1, 2, … ."""
    twice = [word for word, count in Counter(words).items() if count > 1]
    senses: dict[str, list[int]] = {}
    for word in words:
        if match := SENSE.match(word):
            senses.setdefault(match[1], []).append(int(match[2]))
    odd = [word for word, found in senses.items() if found != list(range(1, max(2, len(found)) + 1)) or word in words]
    return twice + odd


def test_no_word_is_explained_twice_unless_its_meanings_are_numbered() -> None:
    words = words_of(PAGE.read_text(encoding="utf-8"))
    assert len(words) > 100
    assert explained_twice(words) == []


def test_a_word_that_is_explained_twice_is_found() -> None:
    assert explained_twice(words_of("| fence | a |\n| fence, wall (old) | b |")) == ["fence"]
    assert explained_twice(words_of("| fence (1) | a |\n| wall | b |")) == ["fence"]
    assert explained_twice(words_of("| fence (1) | a |\n| fence (2) | b |")) == []
