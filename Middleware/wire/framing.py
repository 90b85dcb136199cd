"""Server-sent events and newline-delimited JSON, fed with bytes as the network delivers them.

Wherever the bytes are cut, the result is the same. Lines end at LF, CRLF or CR and nowhere else:
U+2028 and its like are ordinary characters inside a JSON text. Payloads stay bytes, because the
JSON reader wants bytes and a character that was cut in two is whole again once its line is.
"""

from typing import Final, NamedTuple

_BOM: Final = b"\xef\xbb\xbf"


class _Lines:
    """Cuts bytes into lines. A line that is still open is kept until its end arrives."""

    __slots__ = ("_open", "_skip_line_feed", "_started")

    def __init__(self) -> None:
        self._open: list[bytes] = []
        self._skip_line_feed = False
        self._started = False

    def feed(self, chunk: bytes) -> list[bytes]:
        if not self._started or self._skip_line_feed or b"\r" in chunk:
            chunk = self._normalised(chunk)
        if b"\n" not in chunk:
            # Joined only when the line ends: a line of megabytes costs no repeated copying.
            if chunk:
                self._open.append(chunk)
            return []
        lines = chunk.split(b"\n")
        if self._open:
            self._open.append(lines[0])
            lines[0] = b"".join(self._open)
            self._open.clear()
        last = lines.pop()
        if last:
            self._open.append(last)
        return lines

    def close(self) -> list[bytes]:
        """The line that the end of the stream has cut off, if any."""
        rest = b"".join(self._open)
        self._open.clear()
        return [rest] if rest else []

    def _normalised(self, chunk: bytes) -> bytes:
        if not self._started:
            held = b"".join(self._open) + chunk
            if len(held) < len(_BOM) and _BOM.startswith(held):
                self._open = [held]
                return b""
            self._open.clear()
            self._started = True
            chunk = held.removeprefix(_BOM)
        # A CR ends its line at once; if its LF comes with the next bytes, that one is dropped.
        if self._skip_line_feed and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_line_feed = False
        if chunk.endswith(b"\r"):
            self._skip_line_feed = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class SseEvent(NamedTuple):
    """One event: its name ("message" when it has none) and its payload."""

    name: str
    data: bytes


class SseDecoder:
    """Incremental reader of server-sent events; comments, ids, retries and empty data are skipped.

    A data line that is a JSON object, or ``[DONE]``, is an event as soon as its line ends: some
    servers leave the blank line out, and nothing is gained by waiting for it. Other data lines are
    collected up to the blank line and joined, as the standard says.
    """

    __slots__ = ("_data", "_lines", "_name")

    def __init__(self) -> None:
        self._lines = _Lines()
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that are complete now, for formats that do not use event names."""
        done: list[bytes] = []
        for line in self._lines.feed(chunk):
            # The two common kinds of line first: this loop is run for every token.
            if not line:
                if self._data:
                    done.append(self._joined())
                self._name = b""
            elif line[:6] == b"data: " and line[-1:] == b"}" and line[6:7] == b"{":
                if self._data:
                    self._data.append(line[6:])
                else:
                    done.append(line[6:])
            else:
                payload = self._other(line)
                if payload:
                    done.append(payload)
        return done

    def feed_events(self, chunk: bytes) -> list[SseEvent]:
        """The events that are complete now, with their names."""
        done: list[SseEvent] = []
        for line in self._lines.feed(chunk):
            payload = self._other(line) if line else self._joined()
            if payload:
                done.append(SseEvent(self._name.decode("utf-8", "replace") or "message", payload))
            if not line:
                self._name = b""
        return done

    def close(self) -> list[bytes]:
        """What the end of the stream left without its last line end."""
        done = []
        for line in self._lines.close():
            payload = self._other(line)
            if payload:
                done.append(payload)
        if self._data:
            done.append(self._joined())
        return done

    def _other(self, line: bytes) -> bytes:
        """Take one line that is not blank; the payload if it completes one, else nothing."""
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            whole = value == b"[DONE]" or (value.startswith(b"{") and value.endswith(b"}"))
            if whole and not self._data:
                return value
            if value or self._data:
                self._data.append(value)
        elif field == b"event":
            self._name = value
        return b""

    def _joined(self) -> bytes:
        payload = b"\n".join(self._data)
        self._data.clear()
        return payload


class NdjsonDecoder:
    """Incremental reader of one JSON text a line; empty lines are skipped."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines = _Lines()

    def feed(self, chunk: bytes) -> list[bytes]:
        return [line for line in self._lines.feed(chunk) if line.strip()]

    def close(self) -> list[bytes]:
        """A last line without a line end."""
        return [line for line in self._lines.close() if line.strip()]
