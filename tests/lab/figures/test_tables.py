"""The page of figures has the verdicts of the last runs, and keeps what was written beside them."""

import json
from pathlib import Path

import pytest

from whence_lab.figures.catalogue import FIGURES
from whence_lab.figures.tables import table, update, with_verdict
from whence_lab.figures.verdicts import Sentence

PAGE = Path(__file__).parents[3] / "docs" / "figures.md"
HOLDS = Sentence("it grows", "6", "more", "1: 2, 2: 4", "holds")
REFUTED = Sentence("|it| stays", "7", "as much", "1: 2, 2: 4", "refuted", "It grows.")
TABLE = table([HOLDS, REFUTED])


def written(out: Path, name: str, **told: object) -> None:
    """Write what `whence reproduce` writes of a figure."""
    (out / name).mkdir()
    (out / name / f"{name}.png").write_bytes(b"picture")
    (out / name / "verdict.md").write_text(f"J, figure 9. Three.\n\n{TABLE}")
    (out / name / "verdict.json").write_text(json.dumps({"name": name, "kind": "quick", "seed": 0} | told))


def test_a_table_has_a_row_for_each_sentence_and_what_does_not_hold_is_bold() -> None:
    assert TABLE.splitlines()[2:] == [
        "| it grows (6) | more | 1: 2, 2: 4 | holds |",
        "| \\|it\\| stays (7) | as much | 1: 2, 2: 4. It grows. | **refuted** |",
    ]


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "ordering-cost"])
def test_a_verdict_replaces_the_old_one_of_its_figure_and_nothing_else(name: str) -> None:
    page = PAGE.read_text()
    changed = with_verdict(page, name, f"J, figure 9. Three.\n\n{TABLE}")
    assert changed.count(TABLE) == 1
    assert changed.count("\nIn short: ") == page.count("\nIn short: ")
    of_others = [each for each in page.split("\n### ") if not each.startswith(f"`{name}`")]
    assert [each for each in changed.split("\n### ") if not each.startswith(f"`{name}`")] == of_others
    assert with_verdict(changed, name, f"J, figure 9. Three.\n\n{TABLE}") == changed


def test_verdicts_and_pictures_below_a_directory_are_taken_over(tmp_path: Path) -> None:
    page, out = tmp_path / "figures.md", tmp_path / "out"
    (tmp_path / "figures").mkdir()
    out.mkdir()
    page.write_text(PAGE.read_text())
    written(out, "cluster-scale")
    written(out, "merge-delta")
    written(out, "ordering-cost")
    assert update(page, out) == ["cluster-scale", "merge-delta"]
    assert page.read_text().count(TABLE) == 2
    assert len(list((tmp_path / "figures").glob("*.png"))) == 3


@pytest.mark.parametrize("told", [{"kind": "full"}, {"seed": 1}])
def test_what_the_page_is_not_of_changes_nothing(told: dict[str, object], tmp_path: Path) -> None:
    page = tmp_path / "figures.md"
    page.write_text(PAGE.read_text())
    written(tmp_path, "cluster-scale")
    written(tmp_path, "merge-delta", **told)
    with pytest.raises(ValueError, match="quick runs with seed 0"):
        update(page, tmp_path)
    assert page.read_text() == PAGE.read_text()


def test_a_page_without_the_place_of_a_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="no heading, picture and table for merge-delta"):
        with_verdict("# Figures\n\n### `merge-delta`: what\n\nNothing yet.\n", "merge-delta", TABLE)
