"""The results as a page for people: ``docs/acceptance.md``."""

from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.steps import Report

_INTRODUCTION = """\
# Acceptance

What real programs did in front of a server with the shipped configuration and its scripted
model. They came from their package registries and ran without a screen, as themselves: nothing
plays their part, except in the rows of recorded requests.

To try it again, have Node.js and, for the steps in a browser, Chromium:

```
python3 tests/acceptance/run.py                    # all of them; it writes this page
python3 tests/acceptance/run.py codex claude-code  # some of them; --help says more
```

## Pictures

![SillyTavern: our address is typed in, its models are listed](images/sillytavern.png)

## Results

| Program | Version | Tried | Result | Date |
| --- | --- | --- | --- | --- |
"""


def write(path: Path, reports: Sequence[Report], date: str) -> None:
    """Rows of programs that were not tried this time stay as they are."""
    tried = {report.program for report in reports}
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for row in old if row.startswith("| ") and _program(row) not in tried]
    rows = [row for row in rows if _program(row) not in ("Program", "---")]
    for report in reports:
        for step in report.steps:
            cells = (report.program, report.version, step.tried, step.result, date)
            rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    path.write_text(_INTRODUCTION + "\n".join(sorted(rows, key=_program)) + "\n", encoding="utf-8")


def _program(row: str) -> str:
    return row.split(" | ")[0].removeprefix("| ")
