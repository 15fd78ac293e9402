"""Where things are. Not in conftest.py, of which there are two: `import conftest` finds one or the other."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HELPERS = ROOT / "tests" / "integration"
BUILT = ROOT / "build" / "tests"
PYTHON = "/usr/bin/python3"
