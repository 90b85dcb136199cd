"""Point real front ends at a running server: ``python3 tests/acceptance/run.py --help``.

Not part of the test suite: it installs programs of others and takes minutes.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
    runpy.run_module("tests.acceptance.everything", run_name="__main__")
