"""Running curl (nodes §23, memory-and-state §22.4)."""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import IO, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.curl_arguments import (
    Argument,
    Part,
    RefusedArgument,
    data_leads,
    parts_of,
    refuse_options,
    refuse_schemes,
    refuse_unguarded,
    urls_in,
)
from Middleware.tools.net_policy import (
    OPEN,
    AddressBlocked,
    NetPolicy,
    Resolver,
    resolve,
    system_resolver,
)
from Middleware.tools.proxies import Proxy
from Middleware.tools.urls import BadUrl, Url, parse_url

_READ: Final = 65536


class CurlFailed(Exception):
    """curl had no chance to finish. ``result`` is what it had said."""

    def __init__(self, message: str, result: "CurlResult") -> None:
        super().__init__(message)
        self.message = message
        self.result = result


class TooSlow(WorkflowError):
    """The time is over. Becomes a CurlFailed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"curl timed out after {seconds:g} seconds")


@dataclass(frozen=True, slots=True)
class CurlResult:
    stdout: str = ""
    stderr: str = ""
    returncode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """All that one call of curl may do."""

    arguments: Sequence[Argument]
    timeout_seconds: float = 30.0
    max_bytes: int | None = None
    proxy: str = ""
    proxy_at: Proxy | None = None
    proxy_policy: NetPolicy = OPEN
    policy: NetPolicy = OPEN
    guards_data: bool = True
    """Whether data in a host is guarded as if ``blockPrivateAddresses`` were true."""
    refuses_options: bool = False
    refuses_schemes: bool = True
    resolver: Resolver = system_resolver


@dataclass(frozen=True, slots=True)
class _Line:
    """What is run, and in which environment; None: that of the server."""

    arguments: Sequence[str]
    environment: Mapping[str, str] | None = field(default=None, repr=False)


def run(command: Command, cancel: CancelToken) -> CurlResult:
    """Raises WorkflowError for what may not be run, CurlFailed, or the token's reason."""
    executable = shutil.which("curl")
    if executable is None:
        raise WorkflowError("curl is not installed, or not in the PATH of the server.")
    try:
        line = _line(command, cancel)
    except (RefusedArgument, AddressBlocked) as error:
        raise WorkflowError(f"curl is not run: {error}") from error
    except BadUrl as error:
        raise WorkflowError(f"curl is not run: the URL {error}.") from error
    except OSError as error:
        raise WorkflowError(f"curl is not run: {error}.") from error
    return _run([executable, *line.arguments], line.environment, command, cancel)


# ------------------------------------------------------------------------------ what is run


def _line(command: Command, cancel: CancelToken) -> _Line:
    arguments = command.arguments
    if any("\0" in argument.text for argument in arguments):
        raise RefusedArgument("an argument holds a NUL")
    parts = parts_of(arguments)
    policy = command.policy
    if command.guards_data and data_leads(arguments, parts):
        policy = replace(policy, block_private=True)
    if command.refuses_schemes:
        refuse_schemes(arguments, parts)
    if command.refuses_options or policy.active:
        refuse_options(arguments, parts)
    texts = [argument.text for argument in arguments]
    if policy.active:
        return _guarded(command, policy, parts, texts, cancel)
    given = {part.name for part in parts}
    head: list[str] = []
    if command.max_bytes is not None and "max-filesize" not in given:
        head += ["--max-filesize", str(command.max_bytes)]
    if command.proxy:
        head += ["-x", command.proxy]
    return _Line([*head, *texts])


def _guarded(
    command: Command,
    policy: NetPolicy,
    parts: Sequence[Part],
    texts: list[str],
    cancel: CancelToken,
) -> _Line:
    """The command line for a call that may not lead everywhere.

    curl gets the very URL that was looked at, in our own spelling, and the addresses that were
    found for it; it looks nothing up, reads no settings file and follows no redirect.
    """
    refuse_unguarded(command.arguments, parts)
    head = ["-q", "--globoff", "--max-redirs", "0", "--proto", "=http,https"]
    given = {part.name for part in parts}
    if command.max_bytes is not None and "max-filesize" not in given:
        head += ["--max-filesize", str(command.max_bytes)]
    for part in parts:
        if part.name == "max-redirs":
            texts[part.argument] = texts[part.argument][: part.start] + "0"
    for part in urls_in(command.arguments, parts):
        url = _checked(texts[part.argument][part.start :], policy)
        texts[part.argument] = texts[part.argument][: part.start] + _spelled(url)
        found = policy.require_addresses(
            url.host, resolve(url.host, url.port, cancel, command.resolver)
        )
        head += _pinned(command, url, found)
    if command.proxy_at is not None:
        proxy = command.proxy_at
        found = command.proxy_policy.require_addresses(
            proxy.host, resolve(proxy.host, proxy.port, cancel, command.resolver)
        )
        head += ["-x", command.proxy, "--proxytunnel"]
        head += ["--resolve", f"{proxy.host}:{proxy.port}:{','.join(map(_bracketed, found))}"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name.upper() != "CURL_HOME"
    }
    return _Line([*head, *texts], environment)


def _checked(text: str, policy: NetPolicy) -> Url:
    url = parse_url(text if "://" in text else f"http://{text}")
    policy.require_host(url.host)
    return url.without_dot()


def _spelled(url: Url) -> str:
    login = f"{url.userinfo}@" if url.userinfo else ""
    return f"{url.scheme}://{login}{_bracketed(url.host)}:{url.port}{url.target}"


def _pinned(command: Command, url: Url, addresses: Sequence[str]) -> list[str]:
    """Numeric hosts are pinned too: curl reads some spellings of them in its own way."""
    host = _bracketed(url.host)
    if command.proxy:
        return ["--connect-to", f"{host}:{url.port}:{_bracketed(addresses[0])}:{url.port}"]
    if ":" in url.host:
        return []
    return ["--resolve", f"{host}:{url.port}:{','.join(map(_bracketed, addresses))}"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# ---------------------------------------------------------------------------------- running


class _Collected:
    """What a process writes to one pipe, up to a limit."""

    def __init__(self, pipe: IO[bytes], most: int | None) -> None:
        self.data = b""
        self.overflowed = threading.Event()
        self._pipe = pipe
        self._most = most
        self._thread = threading.Thread(target=self._read, name="curl", daemon=True)

    def start(self, on_overflow: "subprocess.Popen[bytes] | None") -> None:
        self._process = on_overflow
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        pieces: list[bytes] = []
        size = 0
        while piece := os.read(self._pipe.fileno(), _READ):
            if self._most is not None and size + len(piece) > self._most:
                if not self.overflowed.is_set():
                    pieces.append(piece[: self._most - size])
                    self.overflowed.set()
                    if self._process is not None:
                        self._process.kill()
                size = self._most
                continue
            pieces.append(piece)
            size += len(piece)
        self.data = b"".join(pieces)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


def _run(
    line: Sequence[str],
    environment: Mapping[str, str] | None,
    command: Command,
    cancel: CancelToken,
) -> CurlResult:
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out = _Collected(process.stdout, command.max_bytes)
        err = _Collected(process.stderr, command.max_bytes)
        out.start(process)
        err.start(None)
        slow = TooSlow(command.timeout_seconds)
        try:
            with (
                cancel.limited(command.timeout_seconds, slow) as token,
                token.on_cancel(process.kill),
            ):
                _finish(process, out, err)
                token.check()
        except TooSlow as error:
            _finish(process, out, err)
            raise CurlFailed(error.text, CurlResult(out.text, err.text)) from error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            _finish(process, out, err)
    if out.overflowed.is_set():
        assert command.max_bytes is not None
        raise CurlFailed(
            f"curl wrote more than {command.max_bytes} bytes (maxResponseBytes)",
            CurlResult(out.text, err.text),
        )
    return CurlResult(out.text, err.text, process.returncode)


def _finish(process: "subprocess.Popen[bytes]", out: _Collected, err: _Collected) -> None:
    out.join()
    err.join()
    process.wait()
