"""A private PostgreSQL for tests: its own cluster in a temporary folder, on a free port.

Processes of one test session (pytest-xdist has several) share one; the last to leave ends it.
"""

import fcntl
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

WHERE_PROGRAMS_ARE = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt", "/usr/local/opt")


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; the newest where there are several."""
    on_path = shutil.which("pg_ctl")
    found = [Path(on_path).resolve().parent] if on_path else []
    for place in WHERE_PROGRAMS_ARE:
        found += sorted(Path(place).parent.glob(f"{Path(place).name}*/**/bin/pg_ctl"), reverse=True)
    folders = [path if path.is_dir() else path.parent for path in found]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Cluster:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://headrace@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """The URL of a fresh database."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """A database takes eight megabytes, and there are many tests."""
        name = url.rpartition("/")[2]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def run(self, *words: str) -> None:
        """`pg_ctl` with these words."""
        bin_folder = programs()
        assert bin_folder is not None
        command = [str(bin_folder / "pg_ctl"), "-D", str(self.folder / "data"), "-w", *words]
        _run(command, self.folder)

    def start(self) -> None:
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
            "-c fsync=off -c max_connections=500 -c shared_buffers=64MB"
        )
        self.run("-l", str(self.folder / "log"), "-o", settings, "start")

    def stop(self) -> None:
        self.run("-m", "immediate", "stop")


def make_cluster() -> Cluster:
    """A new cluster, started. It is its folder's only user's affair to end and remove it."""
    bin_folder = programs()
    assert bin_folder is not None
    folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
    user = _unprivileged()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    _run(
        [
            *(str(bin_folder / "initdb"), "-D", str(folder / "data"), "-U", "headrace"),
            *("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        folder,
    )
    cluster = Cluster(folder, port)
    cluster.start()
    return cluster


@contextmanager
def shared_cluster(meeting_place: Path) -> Iterator[Cluster]:
    """The cluster of this test session; ``meeting_place`` is a folder that all processes know."""
    note = meeting_place / "postgres.json"
    with _locked(meeting_place / "postgres.lock"):
        known = json.loads(note.read_text()) if note.exists() else None
        if known is None:
            made = make_cluster()
            known = {"folder": str(made.folder), "port": made.port, "users": 0}
        known["users"] += 1
        note.write_text(json.dumps(known))
    cluster = Cluster(Path(known["folder"]), known["port"])
    try:
        yield cluster
    finally:
        with _locked(meeting_place / "postgres.lock"):
            known = json.loads(note.read_text())
            known["users"] -= 1
            if known["users"]:
                note.write_text(json.dumps(known))
            else:
                cluster.stop()
                shutil.rmtree(cluster.folder, ignore_errors=True)
                note.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("There is no unprivileged user to run PostgreSQL as.")


def _run(command: list[str], folder: Path) -> None:
    user = _unprivileged()
    identity = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid}
    output = folder.parent / f"{folder.name}.out"
    # Not a pipe: the server that stays would keep it open.
    with output.open("w") as said:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
            **identity,  # type: ignore[call-overload]
        )
    text = output.read_text()
    output.unlink()
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {text}")
