"""Where log lines go and how they look. Nobody else configures logging."""

import logging
import logging.handlers
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO

import orjson

_PAUSE_SECONDS = 0.05
_FILE_BYTES = 10 * 1024 * 1024
_FILES_KEPT = 5
LOG_FILE = "headrace.log"


class BatchedHandler(logging.Handler):
    """Writes from a thread of its own, a batch at a time.

    A write to a file or terminal gives the interpreter lock away, which under load costs the
    request far more than the write (performance.md 3). A line may come up to 50 ms late.
    """

    def __init__(self, targets: list[logging.Handler]) -> None:
        super().__init__()
        self._targets = targets
        self._records: deque[logging.LogRecord] = deque()
        self._something = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def add_target(self, target: logging.Handler) -> None:
        with self._writing:
            self._targets.append(target)

    def emit(self, record: logging.LogRecord) -> None:
        # Filled in now: the values may have changed when the line is written.
        record.msg, record.args = record.getMessage(), None
        self._records.append(record)
        if not self._something.is_set():
            self._something.set()

    def flush(self) -> None:
        """Write everything that was logged before this call."""
        with self._writing:
            while self._records:
                self._write(self._records.popleft())

    def close(self) -> None:
        """Write what is left and close the targets."""
        self.flush()
        for target in self._targets:
            target.close()
        super().close()

    def _write(self, record: logging.LogRecord) -> None:
        for target in self._targets:
            try:
                target.handle(record)
            # The outermost guard of a background thread: a full disk must not end all logging.
            # Handlers report most faults themselves.
            except Exception:  # noqa: BLE001
                target.handleError(record)

    def _run(self) -> None:
        while True:
            self._something.wait()
            time.sleep(_PAUSE_SECONDS)
            self._something.clear()
            self.flush()


class JsonLines(logging.Formatter):
    """One JSON object a line, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _formatter(form: str) -> logging.Formatter:
    if form == "json":
        return JsonLines()
    return logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")


def configure_logging(form: str, level: str, stream: TextIO | None = None) -> BatchedHandler:
    """Send everything from ``level`` on to ``stream`` (standard error). Call once a process.

    Libraries only get a word in when something is wrong.
    """
    console = logging.StreamHandler(stream or sys.stderr)
    console.setFormatter(_formatter(form))
    handler = BatchedHandler([console])
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("Middleware").setLevel(level.upper())
    # Logs a warning whenever all workers are busy for a moment.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    return handler


def add_log_files(handler: BatchedHandler, form: str, directory: Path) -> None:
    """Write the same lines to ``headrace.log`` in ``directory`` too, a few old files kept."""
    directory.mkdir(parents=True, exist_ok=True)
    files = logging.handlers.RotatingFileHandler(
        directory / LOG_FILE, maxBytes=_FILE_BYTES, backupCount=_FILES_KEPT, encoding="utf-8"
    )
    files.setFormatter(_formatter(form))
    handler.add_target(files)
