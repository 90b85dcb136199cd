"""A small copy of the project, to start again and again: the real `start.py` and what it imports,
a server that tells how it was started, and requirements that need no package index."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_SECONDS = 100

TELLS = """
import importlib.metadata, json, os, sys

def main(arguments):
    one = [d.version for d in importlib.metadata.distributions(name="one")]
    print(json.dumps({"words": arguments, "prefix": sys.prefix, "folder": os.getcwd(),
                      "process": os.getpid(), "one": one, "file": __file__}), flush=True)
    if arguments[:1] == ["--wait"]:
        sys.stdin.read()
    if arguments[:1] == ["--exit"]:
        return int(arguments[1])
    return 0
"""
STARTS = '\nif __name__ == "__main__":\n    sys.exit(main(sys.argv[1:]))\n'


@dataclass(frozen=True)
class Checkout:
    root: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    def requires(self, *lines: str) -> None:
        (self.root / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))

    def popen(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(self.root / "start.py"), *words],
            cwd=options.pop("cwd", self.root),
            env={**clean_environ(self.root / "home"), **self.environ, **options.pop("env", {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            **options,
        )

    def start(self, *words: str, **options: Any) -> "Started":
        with self.popen(*words, **options) as started:
            said, progress = started.communicate(timeout=DEADLINE_SECONDS)
        return Started(started.returncode, said, progress)


@dataclass(frozen=True)
class Started:
    code: int
    said: str
    progress: str

    @property
    def told(self) -> dict[str, Any]:
        assert self.code == 0, self.progress
        told = json.loads(self.said)
        assert isinstance(told, dict)
        return told


def clean_environ(home: Path) -> dict[str, str]:
    """An empty home, and a package index that nothing can be had from."""
    dropped = ("PIP_", "PYTHON", "VIRTUAL_ENV", "XDG_", "HEADRACE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    nothing = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    return {**kept, **nothing, "PIP_RETRIES": "1", "HOME": str(home), "USERPROFILE": str(home)}


def make_checkout(root: Path) -> Checkout:
    for name in ("home", "wheels"):
        (root / name).mkdir(parents=True)
    shutil.copy(ROOT / "start.py", root)
    only_pycs = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "Middleware" / "cli", root / "Middleware" / "cli", ignore=only_pycs)
    (root / "Middleware" / "core").mkdir()
    for file in ("__init__.py", "__main__.py", "core/__init__.py", "core/errors.py"):
        shutil.copy(ROOT / "Middleware" / file, root / "Middleware" / file)
    (root / "server.py").write_text(TELLS + STARTS)
    (root / "Middleware" / "cli" / "check.py").write_text(TELLS)
    for version in ("1.0", "2.0"):
        make_wheel(root / "wheels", version)
    checkout = Checkout(root)
    checkout.requires("# Nothing yet")
    return checkout


def copy_checkout(checkout: Checkout, root: Path) -> Checkout:
    shutil.copytree(checkout.root, root, symlinks=True)
    return Checkout(root)


def make_wheel(folder: Path, version: str) -> None:
    """A package `one` of nothing but its version."""
    info = f"one-{version}.dist-info"
    files = {
        "one.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: one\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record.append(f"{name},sha256={digest.decode()},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"])
    with zipfile.ZipFile(folder / f"one-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
