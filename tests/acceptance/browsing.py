"""Steps in a browser. They run in an environment of their own, which has Playwright."""

import json
import subprocess
from pathlib import Path

from tests.acceptance.programs import Place, chromium
from tests.acceptance.server import ROOT
from tests.acceptance.steps import FAILED, NotInstalled, Report

_SECONDS = 300


def steps(report: Report, place: Place, scenario: str, given: str) -> bool:
    """Adds the steps of a scenario of ``in_browser``; False when no browser can be had."""
    browser = chromium()
    try:
        if browser is None:
            raise NotInstalled("there is no Chromium")
        python = place.venv("playwright", "playwright") / "python"
    except NotInstalled as error:
        report.add("in a browser", f"not tried: {error}")
        return False
    words: list[str | Path] = [python, "-m", "tests.acceptance.in_browser"]
    words += [scenario, given, browser, place.folder("pictures")]
    done = subprocess.run(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=False
    )
    for line in done.stdout.splitlines():
        told = json.loads(line)
        report.add(f"in a browser: {told['tried']}", told["result"])
    if done.returncode != 0:
        report.add("in a browser", f"{FAILED}: it ended with {done.returncode}")
    return True
