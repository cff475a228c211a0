"""What the code cites of a paper is in the repository: every trap and section it names is on that paper's page."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "papers"

PROSE = {tokenize.COMMENT, tokenize.STRING}
SECTION = r"[1-9][0-9]?(?:\.[1-9][0-9]?)*"
SECTIONS = rf"{SECTION}(?:(?:,\s+|,?\s+and\s+|\s+to\s+){SECTION})*"
PLANTED = re.compile(r"[Pp]lanted:\s+(`\w+`(?:,\s+`\w+`)*)")


class Paper(NamedTuple):
    """A page of docs/papers, and how code refers to it."""

    page: str
    letters: str
    """The letters before the numbers of its traps: E for E1, E2 and so on."""
    called: str
    """What stands before the number of a section, as a pattern."""
    elsewhere: str = r"(?!)"
    """Where a path matches this pattern, the same letters are of another paper."""
    is_planted: bool = True
    """Some of its traps are planted as bugs, and the page names them."""


PAPERS = [
    Paper("locamu.md", "E", r"(?:LoCaMu|locamu)(?:'s)?,?(?:\s+review,?)?(?:\s+sections?)?", elsewhere=r"merge|total"),
    Paper("merge.md", "EM", r"merge(?:,?\s+sections?)?", elsewhere=r"^(?!.*(?:merge|total))"),
    Paper("views.md", "T", r"views(?:,?\s+sections?)?"),
]
"""A new page is a new line. Where two papers share a letter, each says in which files it is the other's."""

LOCAMU = PAPERS[0]


class Citation(NamedTuple):
    """A trap or section that a file names."""

    where: str
    what: str


def python_files() -> list[Path]:
    """Return every Python file of the product and of its tests but this one, whatever their folders are called."""
    found = [path for folder in ("src", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if path != Path(__file__)]


@cache
def prose(text: str) -> list[tuple[int, str]]:
    """Return docstrings, other strings and comments, with the line each begins in."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in PROSE]


def traps_in(text: str, letters: str) -> list[str]:
    """Return the traps that a text names, those between the ends of a range too."""
    trap = rf"\b([{letters}])([1-9][0-9]?)\b"
    found = [match[1] + match[2] for match in re.finditer(trap, text)]
    for match in re.finditer(rf"{trap}\s+to\s+\1([1-9][0-9]?)\b", text):
        found += [f"{match[1]}{number}" for number in range(int(match[2]) + 1, int(match[3]))]
    return found


def sections_in(text: str, called: str) -> list[str]:
    """Return the sections that a text names after a paper's name."""
    lists = re.findall(rf"\b{called}\s+({SECTIONS})\b", text)
    return [number for listed in lists for number in re.findall(SECTION, listed)]


def cited_traps(paper: Paper, path: str, text: str) -> list[Citation]:
    """Return the traps of a paper that a file names."""
    if re.search(paper.elsewhere, path):
        return []
    return [Citation(f"{path}:{line}", trap) for line, said in prose(text) for trap in traps_in(said, paper.letters)]


def cited_sections(paper: Paper, path: str, text: str) -> list[Citation]:
    """Return the sections of a paper that a file names."""
    return [
        Citation(f"{path}:{line}", section) for line, said in prose(text) for section in sections_in(said, paper.called)
    ]


def defined_traps(page: str, letters: str) -> list[str]:
    """Return the traps that a page explains: a list item, table row or heading begins with each."""
    return re.findall(rf"^(?:[-*]|\||#+)\s+(?:\*\*)?([{letters}][1-9][0-9]?)\b", page, re.MULTILINE)


def defined_sections(page: str) -> list[str]:
    """Return the numbers of a page's headings."""
    return re.findall(rf"^#+\s+({SECTION})\.?\s", page, re.MULTILINE)


def everywhere(kind: str, paper: Paper) -> list[Citation]:
    """Return what all files name of a paper: its traps, or its sections."""
    cited = {"traps": cited_traps, "sections": cited_sections}[kind]
    found: list[Citation] = []
    for path in python_files():
        found += cited(paper, path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    return found


def page_of(paper: Paper) -> str:
    return (PAGES / paper.page).read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.page)
def test_every_trap_that_code_or_tests_name_is_on_the_page_of_its_paper(paper: Paper) -> None:
    cited, defined = everywhere("traps", paper), defined_traps(page_of(paper), paper.letters)
    assert cited
    assert [citation for citation in cited if citation.what not in defined] == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.page)
def test_every_section_that_code_or_tests_name_is_a_heading_of_the_page(paper: Paper) -> None:
    cited, defined = everywhere("sections", paper), defined_sections(page_of(paper))
    assert cited
    assert [citation for citation in cited if citation.what not in defined] == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.page)
def test_a_page_explains_each_trap_once_and_every_trap_it_names(paper: Paper) -> None:
    page = page_of(paper)
    defined = defined_traps(page, paper.letters)
    assert len(defined) == len({*defined})
    assert [trap for trap in traps_in(page, paper.letters) if trap not in defined] == []


def test_sections_in_brackets_on_the_page_of_locamu_are_its_own() -> None:
    page = page_of(LOCAMU)
    inside = [number for listed in re.findall(rf"\(({SECTIONS})\)", page) for number in re.findall(SECTION, listed)]
    assert inside
    assert [number for number in inside if "." in number and number not in defined_sections(page)] == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.page)
def test_every_planted_bug_that_a_page_names_is_in_the_code_under_that_name(paper: Paper) -> None:
    named = [name for listed in PLANTED.findall(page_of(paper)) for name in re.findall(r"\w+", listed)]
    strings = {
        said
        for path in python_files()
        if path.is_relative_to(ROOT / "src")
        for _, said in prose(path.read_text(encoding="utf-8"))
    }
    assert bool(named) == paper.is_planted
    assert [name for name in named if f'"{name}"' not in strings] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Numbers are a prefix (E6)."""', ["E6"]),
        ("x = 1  # as E13 has it", ["E13"]),
        ('raise ValueError("see E22")', ["E22"]),
        ('"""What the printed algorithm does not manage (E1 to\nE4)."""', ["E1", "E4", "E2", "E3"]),
        ("E6 = 1", []),
        ("x = 1  # noqa: E743", []),
        ("# F6, e6, HE6 and E0", []),
    ],
)
def test_traps_are_found_in_prose_and_nowhere_else(text: str, found: list[str]) -> None:
    assert [citation.what for citation in cited_traps(LOCAMU, "src/a.py", text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Source: LoCaMu sections 4.3, 4.6.\n"""', ["4.3", "4.6"]),
        ('"""Source: LoCaMu, section 1."""', ["1"]),
        ('"""(LoCaMu, section 1.1, *causal order*)"""', ["1.1"]),
        ('"""The model of the\nLoCaMu 11.1). A link"""', ["11.1"]),
        ("# LoCaMu review, section 7.3", ["7.3"]),
        ("# as locamu 4.7 and 4.8 have it", ["4.7", "4.8"]),
        ("# LoCaMu on 511 nodes; section 4.8 of another", []),
    ],
)
def test_sections_are_found_after_the_name_of_their_paper(text: str, found: list[str]) -> None:
    assert [citation.what for citation in cited_sections(LOCAMU, "src/a.py", text)] == found


def test_a_letter_that_two_papers_share_is_read_by_the_file_it_stands_in() -> None:
    text = '"""merge E16: state lost inverts the order."""'
    assert cited_traps(LOCAMU, "tests/paper/test_merge.py", text) == []
    assert cited_traps(LOCAMU, "tests/core/test_causal.py", text) == [Citation("tests/core/test_causal.py:1", "E16")]


def test_a_trap_is_defined_where_an_item_a_row_or_a_heading_begins_with_it() -> None:
    page = "- **E1** (line 10) …\n| E2 | … |\n### E3\nand E4 is only named\n- see E5\n"
    assert defined_traps(page, "E") == ["E1", "E2", "E3"]
    assert defined_sections("# Title\n## 4. Rules\n### 4.7 Completeness\n## Words\n") == ["4", "4.7"]
