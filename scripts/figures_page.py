"""Puts verdicts and pictures of quick runs into docs: .venv/bin/python scripts/figures_page.py out/figures"""

import sys
from pathlib import Path

from whence_lab.figures.tables import update

if __name__ == "__main__":
    taken = update(Path(__file__).parents[1] / "docs" / "figures.md", Path(sys.argv[1]))
    sys.stdout.write(f"taken over: {', '.join(taken) or 'nothing'}\n")
