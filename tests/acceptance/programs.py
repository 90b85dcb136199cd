"""Installing programs of others into a cache of ours, and running them there."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.steps import NotInstalled

_INSTALL_SECONDS = 3600
_RUN_SECONDS = 120
Words = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are kept."""

    cache: Path
    """Installed programs, which outlive a run."""
    results: Path
    """Data, logs and screenshots of this run."""

    def folder(self, name: str) -> Path:
        """A new folder for data of this run."""
        folder = self.results / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def npm(self, package: str, program: str) -> Path:
        """The program of an npm package; raises NotInstalled."""
        folder = self.cache / "npm" / package.replace("/", "-").lstrip("@")
        path = folder / "node_modules/.bin" / program
        if not path.exists():
            _need("npm")
            folder.mkdir(parents=True, exist_ok=True)
            _install(["npm", "install", "--no-fund", "--no-audit", "--prefix", folder, package])
        return path

    def venv(self, name: str, *packages: str, options: Sequence[str] = ()) -> Path:
        """The ``bin`` folder of an environment with these packages; raises NotInstalled."""
        folder = self.cache / "venv" / name
        done = folder / "installed"
        if not done.exists():
            _install([sys.executable, "-m", "venv", folder])
            _install([folder / "bin/pip", "install", "--quiet", "uv"])
            python: list[str | Path] = ["--python", folder / "bin/python"]
            uv: list[str | Path] = [
                folder / "bin/uv",
                "pip",
                "install",
                "--quiet",
                *python,
                *options,
            ]
            _install([*uv, *packages])
            done.touch()
        return folder / "bin"


def free_port() -> int:
    """One that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def chromium() -> str | None:
    """The path of a Chromium of the system."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def output(words: Words, cwd: Path, **env: str) -> str:
    """What a program says, on both of its channels; its exit code does not matter. It is stopped
    after two minutes.
    """
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"not done in {_RUN_SECONDS} seconds: {error.output!r}") from error
    return done.stdout


@contextmanager
def running(words: Words, log: Path, cwd: Path, **env: str) -> Iterator[None]:
    """A server of others, until the block ends."""
    with (
        log.open("w") as said,
        subprocess.Popen(
            words,
            cwd=cwd,
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Ours, without a proxy: all that is talked to is on this machine."""
    ours = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {**ours, **more}


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise NotInstalled(f"there is no {program}")


def _install(words: Words) -> None:
    sys.stdout.write(f"installing: {' '.join(map(str, words))}\n")
    sys.stdout.flush()
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise NotInstalled(said[-1] if said else f"{words[0]} failed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(str(error)) from error
