"""What the README shows works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_program_in_the_readme_prints_the_delivery_it_promises() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Delivery(b'first', sender=" in done.stdout


def test_every_command_in_the_readme_exists() -> None:
    named = set(re.findall(r"whence ([a-z][a-z-]+)", README.read_text(encoding="utf-8")))
    help_text = subprocess.run(
        [sys.executable, "-m", "whence", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert named
    assert sorted(name for name in named if not re.search(rf"│ {name} ", help_text)) == []
