"""Try the wheel in dist/ as a stranger would: an empty environment, one `pip install`, the demo (`make dist`)."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent
NEEDED = ("tocsin/__init__.py", "tocsin/py.typed", "pytest_tocsin.py")


def main() -> None:
    [wheel] = (ROOT / "dist").glob("*.whl")
    [sdist] = (ROOT / "dist").glob("*.tar.gz")
    check_wheel(wheel)
    with tempfile.TemporaryDirectory() as folder:
        print(f"installing {wheel.name} into an empty environment", flush=True)
        found = try_out(wheel, Path(folder))
    print(f"the demo ran from the wheel: {found}")
    for made in (wheel, sdist):
        print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  dist/{made.name}  {made.stat().st_size:,} bytes")


def check_wheel(wheel: Path) -> None:
    """The wheel has what users import, and nothing else."""
    names = ZipFile(wheel).namelist()
    missing = [name for name in NEEDED if name not in names]
    odd = [name for name in names if not name.startswith(("tocsin/", "tocsin-", "pytest_tocsin.py"))]
    if missing or odd:
        sys.exit(f"{wheel.name}: missing {missing}, unexpected {odd}")


def try_out(wheel: Path, folder: Path) -> str:
    """Install the wheel, find the thefts of the demo, and return what it says of them."""
    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel, "--constraint", ROOT / "constraints.txt"], check=True)
    tocsin = [python.with_name("tocsin"), "demo", "--engine", "embedded", "--folder", folder / "demo"]
    said = subprocess.run(tocsin, cwd=folder, check=True, capture_output=True, text=True).stdout
    [line] = [line for line in said.splitlines() if line.startswith("4.")]
    return line.removeprefix("4. ").rstrip(":")


if __name__ == "__main__":
    main()
