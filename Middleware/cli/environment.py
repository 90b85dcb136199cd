"""The folder `.venv` that `start.py` keeps. Standard library only: it is what installs the rest.

`.venv/headrace.stamp` says what has been installed, and is written only after that.
`.venv.lock` is held while anything is changed, and has text in it until that is finished.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

RUNTIME, DEVELOPMENT = "requirements.txt", "requirements-dev.txt"
WINDOWS = sys.platform == "win32"
TESTED = "3.11 to 3.13"
NEWEST_TESTED = (3, 13)

# What pip prints -> what to do about it. The first row that fits counts.
REMEDIES = (
    (
        ("No space left on device", "Disk quota exceeded"),
        "Make room on the disk, then start again.",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "SSLError"),
        "Name the certificates of your network (PIP_CERT=/path/to/ca.pem), then start again.",
    ),
    (
        ("NewConnectionError", "TimeoutError", "ProxyError", "ProtocolError", "getaddrinfo"),
        "The package index cannot be reached. Connect, or name a proxy (HTTPS_PROXY=...) or a "
        "mirror (PIP_INDEX_URL=...), then start again.",
    ),
    (
        ("No matching distribution found", "subprocess-exited-with-error"),
        "The index has no build of a package for this Python or this machine. Delete .venv and "
        f"start with another Python, {TESTED}.",
    ),
)
OTHER_REMEDY = "Put right what is said above, then start again."

# Prints where packages go. An environment that another tool made may lack pip, and one that lost
# its pyvenv.cfg would install into the system's Python.
_PROBE = """
import sys, sysconfig
if sys.version_info < (3, 11) or sys.prefix == sys.base_prefix:
    sys.exit(1)
try:
    import pip
except ImportError:
    import ensurepip
    ensurepip.bootstrap()
print(sysconfig.get_path("purelib"))
"""


class CannotStart(Exception):
    """The text is for the person at the terminal: what happened, and what to do about it."""


class Environment:
    def __init__(self, root: Path) -> None:
        self.python = root / (".venv/Scripts/python.exe" if WINDOWS else ".venv/bin/python")
        self._root = root
        self._folder = root / ".venv"
        self._stamp = self._folder / "headrace.stamp"
        self._lock = root / ".venv.lock"

    def is_ready(self, requirements: str) -> bool:
        """Asked on every start: looks at a few small files and starts no process."""
        known = self._read_stamp()
        return (
            known.get(requirements) == self._fingerprint(requirements)
            and known.get("python") == self._borrowed_python()
            and (self._folder / known.get("packages", "?") / "headrace.pth").exists()
            and not self._is_unfinished()
        )

    def prepare(self, requirements: str) -> None:
        """Make it fit the requirements, or wait for another start that is doing so."""
        try:
            with _locked(self._lock) as lock:
                if not self.is_ready(requirements):
                    self._prepare(requirements, lock)
        except PermissionError as error:
            raise CannotStart(
                f"{error.filename or self._folder} cannot be written.\n"
                "Let the user who starts Headrace own its folder, or give them a copy."
            ) from error

    def _prepare(self, requirements: str, lock: int) -> None:
        before = self._read_stamp().get("python")
        upgraded = before is not None and before != self._borrowed_python()
        packages = None if upgraded or self._is_unfinished() else self._look_inside()
        os.write(lock, b"not finished\n")
        if packages is None:
            packages = self._build(lock)
        self._install(requirements, lock)
        # `python -m Middleware` then works in any folder. Relative, so that all may be moved.
        here = os.path.relpath(self._root, packages)
        (packages / "headrace.pth").write_text(here + "\n", encoding="utf-8")
        self._write_stamp(requirements, packages)
        os.ftruncate(lock, 0)

    def _look_inside(self) -> Path | None:
        """Where packages go; None when there is no environment, or a broken one."""
        import subprocess

        probe = [str(self.python), "-I", "-c", _PROBE]
        try:
            said = subprocess.check_output(probe, stderr=subprocess.DEVNULL, encoding="utf-8")
        except (OSError, subprocess.CalledProcessError):
            return None
        return Path(said.splitlines()[-1])

    def _build(self, lock: int) -> Path:
        from importlib.util import find_spec

        if find_spec("venv") is None or find_spec("ensurepip") is None:
            raise CannotStart(_lacks_venv())
        if sys.version_info[:2] > NEWEST_TESTED:
            newer = f"Headrace is tested with Python {TESTED}. Trying this newer one."
            print(newer, file=sys.stderr)
        title = "Building .venv anew" if self._folder.exists() else "Making .venv"
        self._follow(
            [sys.executable, "-I", "-m", "venv", "--clear", str(self._folder)], lock, title
        )
        packages = self._look_inside()
        if packages is None:
            raise CannotStart(f"{self._folder} was made, but its Python does not start.")
        return packages

    def _install(self, requirements: str, lock: int) -> None:
        pip = [str(self.python), "-I", "-m", "pip", "install", "--no-input"]
        pip += ["--disable-pip-version-check", "--progress-bar", "off"]
        pip += ["--requirement", str(self._root / requirements)]
        lines = [line for name in self._included(requirements) for line in self._lines(name)]
        pinned = sum("==" in line and ";" not in line for line in lines)
        self._follow(pip, lock, f"Installing {requirements} into .venv", pinned)

    def _follow(self, command: Sequence[str], lock: int, title: str, packages: int = 0) -> None:
        from Middleware.cli.progress import Program, Progress, follow

        progress = Progress(title=title, packages=packages)
        program = Program(
            command=command,
            folder=self._root,
            environ=_pip_environment(os.environ),
            # Should we alone be ended, the lock stays until this program has ended too.
            keeps_open=() if WINDOWS else (lock,),
        )
        ended = follow(program, progress)
        if ended.code:
            if packages and not progress.has_begun_to_change:
                os.ftruncate(lock, 0)  # What was there before is whole, and may do for a while.
            words = " ".join(command)
            raise CannotStart(f"\n{words}\n\n{ended.said}\n{_remedy_for(ended.said)}")

    def _borrowed_python(self) -> str:
        """The program behind `.venv`: another after Python's upgrade, none after its removal."""
        if not self.python.exists():
            return ""
        if not WINDOWS:
            return str(self.python.resolve())
        settings = (self._folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        home = next((line[6:].strip() for line in settings if line.startswith("home =")), "")
        return home if Path(home, "python.exe").exists() else ""

    def _is_unfinished(self) -> bool:
        return self._lock.exists() and self._lock.stat().st_size > 0

    def _lines(self, requirements: str) -> list[str]:
        return (self._root / requirements).read_text(encoding="utf-8").splitlines()

    def _included(self, requirements: str) -> list[str]:
        """The file itself, and those that it names with `-r`."""
        inner = [line[3:].strip() for line in self._lines(requirements) if line.startswith("-r ")]
        return [requirements, *(name for file in inner for name in self._included(file))]

    def _fingerprint(self, requirements: str) -> str:
        lines = [line for name in self._included(requirements) for line in self._lines(name)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _read_stamp(self) -> dict[str, str]:
        try:
            lines = self._stamp.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        return {name: value for name, _, value in (line.partition(" ") for line in lines)}

    def _write_stamp(self, requirements: str, packages: Path) -> None:
        before, now = self._read_stamp(), self._included(requirements)
        there = [name for name in (RUNTIME, DEVELOPMENT) if (self._root / name).exists()]
        files = {name: self._fingerprint(name) for name in there}
        # What the other file installed earlier still counts only if it says the same today.
        known = {
            name: mark for name, mark in files.items() if name in now or before.get(name) == mark
        }
        known["python"] = self._borrowed_python()
        known["packages"] = os.path.relpath(packages, self._folder)
        new = self._stamp.with_suffix(".new")
        new.write_text(
            "".join(f"{name} {value}\n" for name, value in known.items()), encoding="utf-8"
        )
        new.replace(self._stamp)


def _lacks_venv() -> str:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        f"This Python {version} ({sys.executable}) lacks the modules that make environments.\n"
        f"Debian, Ubuntu: sudo apt install python{version}-venv\n"
        "Elsewhere: install the package with Python's `venv` and `ensurepip`. Then start again."
    )


def _pip_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Without what would make pip install elsewhere; index, proxy and certificates stay."""
    elsewhere = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON"}
    environ = {name: value for name, value in ours.items() if name not in elsewhere}
    environ["PIP_USER"] = "0"
    if not WINDOWS and not environ.get("HOME"):
        environ["PIP_NO_CACHE_DIR"] = "1"  # The cache would go to a folder that nobody meant.
    return environ


def _remedy_for(said: str) -> str:
    fitting = (remedy for signs, remedy in REMEDIES if any(sign in said for sign in signs))
    return next(fitting, OTHER_REMEDY)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the file, here and in the children that are given its number."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        told = False
        while not _try_to_lock(lock):
            if not told:
                print("Another start is preparing .venv. Waiting for it.", file=sys.stderr)
                told = True
            time.sleep(0.2)
        yield lock
    finally:
        os.close(lock)


def _try_to_lock(lock: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(lock, 1 << 20, os.SEEK_SET)  # Far behind the text, which others must read.
        try:
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # A network drive that cannot lock: better to start than not to.
    return True
