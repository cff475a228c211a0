"""Links between documents work: each leads to a file of the repository, and to a heading of it where it names one."""

import re
from pathlib import Path

import pytest

from tests.tidy.test_tidy import ROOT, files

CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
"""Addresses with a scheme: what they lead to is not ours to keep."""
HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)

DOCUMENTS = [path.relative_to(ROOT) for path in files(ROOT) if path.suffix == ".md"]


def links_in(text: str) -> list[str]:
    """Return where the links of a document lead, those in code left out."""
    found = LINK.finditer(CODE.sub("", text))
    return [link for match in found if not ELSEWHERE.match(link := match[1] or match[2])]


def anchors_of(text: str) -> set[str]:
    """Return the names by which the headings of a document are reached, as GitHub makes them."""
    headings = HEADING.findall(re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    """Return the links of a document that lead nowhere."""
    return [link for link in links_in(document.read_text(encoding="utf-8")) if not leads_somewhere(document, link)]


def leads_somewhere(document: Path, link: str) -> bool:
    """Tell whether the file that a link names exists, and has the heading that it names."""
    name, _, anchor = link.partition("#")
    target = document.parent / name if name else document
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors_of(target.read_text(encoding="utf-8")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_relative_link_of_a_document_leads_to_something_that_exists(document: Path) -> None:
    assert broken_links(ROOT / document) == []


def test_documents_of_every_folder_are_looked_at_and_some_have_links() -> None:
    assert {"README.md", "docs/guarantees.md", "docs/papers/README.md", "examples/README.md"} <= {*map(str, DOCUMENTS)}
    assert links_in((ROOT / "README.md").read_text(encoding="utf-8"))


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The `causal` level, briefly\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](other.md#the-causal-level-briefly) [c](#here) [d](https://example.org/x.md) [e](.)\n"
        '[f](gone.md) [g](other.md#gone) [h](#gone) [i](gone.md "title")\n[j]: gone.txt\n'
        "`[k](gone.md)`\n```text\n[l](gone.md)\n```\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["gone.md", "other.md#gone", "#gone", "gone.md", "gone.txt"]
