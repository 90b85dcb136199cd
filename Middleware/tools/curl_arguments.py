"""Reading a command line as curl does, to find out where it leads (memory-and-state §22.4, S45)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from Middleware.tools.curl_options import (
    BESIDE_A_GUARD,
    CONNECTING,
    READS_AFTER_AT,
    SHORT,
    WITH_VALUE,
)
from Middleware.tools.urls import authority_end, has_scheme

_WEB: Final = frozenset({"http", "https"})


class RefusedArgument(ValueError):
    """What is wrong with the arguments; for the author of the workflow."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as curl gets it. ``data`` tells for each character whether a variable brought
    it in."""

    text: str
    data: tuple[bool, ...]

    @classmethod
    def written(cls, text: str) -> "Argument":
        """One that no variable has a part in."""
        return cls(text, (False,) * len(text))

    def is_data(self, start: int, end: int) -> bool:
        return any(self.data[start:end])

    @property
    def begins_with_data(self) -> bool:
        return bool(self.data) and self.data[0]


@dataclass(frozen=True, slots=True)
class Part:
    """An option or a URL of the command line, and where its value stands."""

    name: str
    """Long name without dashes; ``url`` for a URL that stands by itself."""
    known: bool = True
    argument: int = -1
    """Which argument holds the value; -1 for a switch."""
    start: int = 0
    """Where in that argument the value begins."""


def parts_of(arguments: Sequence[Argument]) -> list[Part]:
    """The command line, cut as curl cuts it."""
    return list(_read(arguments))


def _read(arguments: Sequence[Argument]) -> Iterator[Part]:
    at, options_over = 0, False
    while at < len(arguments):
        text = arguments[at].text
        if options_over or not text.startswith("-") or text == "-":
            yield Part("url", argument=at)
        elif text == "--":
            options_over = True
        else:
            parts = _long(text, at) if text.startswith("--") else list(_short(text, at))
            yield from parts
            last = parts[-1]
            if last.argument > at:
                at = last.argument
        at += 1


def _long(text: str, at: int) -> list[Part]:
    name, equals, _ = text[2:].partition("=")
    if name in WITH_VALUE:
        if equals:
            return [Part(name, argument=at, start=len(name) + 3)]
        return [Part(name, argument=at + 1)]
    return [Part(name, known=name in BESIDE_A_GUARD)]


def _short(text: str, at: int) -> Iterator[Part]:
    for place, letter in enumerate(text[1:], start=1):
        name = SHORT.get(letter)
        if name is None:
            yield Part(letter, known=False)
        elif name not in WITH_VALUE:
            yield Part(name)
        elif place + 1 < len(text):
            # Glued to its letter: -Hvalue.
            yield Part(name, argument=at, start=place + 1)
            return
        else:
            yield Part(name, argument=at + 1)
            return


def urls_in(arguments: Sequence[Argument], parts: Sequence[Part]) -> list[Part]:
    return [part for part in parts if part.name == "url" and part.argument < len(arguments)]


def data_leads(arguments: Sequence[Argument], parts: Sequence[Part]) -> bool:
    """Whether data has a say in where curl connects to: in the scheme or host of a URL, in an
    option that redirects it, or as an argument that may turn out to be one."""
    for part in parts:
        if not 0 <= part.argument < len(arguments):
            continue
        argument = arguments[part.argument]
        end = len(argument.text)
        if part.name == "url":
            end = part.start + _host_end(argument.text[part.start :])
        elif part.name not in CONNECTING:
            continue
        if argument.is_data(part.start, end):
            return True
    return any(one.begins_with_data and one.text.startswith("-") for one in arguments)


def _host_end(url: str) -> int:
    if "://" in url:
        return authority_end(url)
    return min((place for place in map(url.find, "/?#") if place >= 0), default=len(url))


def refuse_schemes(arguments: Sequence[Argument], parts: Sequence[Part]) -> None:
    """Refuse a URL whose data brings in another scheme than http and https."""
    for part in urls_in(arguments, parts):
        argument = arguments[part.argument]
        scheme = has_scheme(argument.text[part.start :])
        if scheme is None or scheme in _WEB:
            continue
        end = argument.text.index(":", part.start)
        if argument.is_data(part.start, end + 1):
            raise RefusedArgument(
                f"a variable makes a URL begin with {scheme}: (allowSchemeInjection)"
            )


def refuse_options(arguments: Sequence[Argument], parts: Sequence[Part]) -> None:
    """Refuse data that acts as an option, or that makes curl read a file."""
    for argument in arguments:
        if argument.begins_with_data and argument.text[0] in "-@":
            raise RefusedArgument(
                f"a variable makes an argument begin with {argument.text[0]} (blockOptionInjection)"
            )
    for part in parts:
        if 0 <= part.argument < len(arguments) and names_file(arguments[part.argument], part):
            raise RefusedArgument(
                f"a variable makes --{part.name} name a file (blockOptionInjection)"
            )


def names_file(argument: Argument, part: Part) -> bool:
    """Whether data makes curl take (a part of) a value for the name of a file, which the author
    has not: a file name that the author asked for is nobody's trick."""
    text, start = argument.text, part.start
    at, equals = text.find("@", start), text.find("=", start)
    if part.name in READS_AFTER_AT:
        return at == start and argument.data[at]
    if part.name == "cookie":
        return equals < 0 and argument.is_data(start, len(text))
    if part.name == "data-urlencode":
        return at >= 0 and argument.data[at] and (equals < 0 or at < equals)
    if part.name == "form":
        # ``name=@file`` and ``name=<file``.
        return any(
            text[place] in "@<" and argument.data[place] and text[place - 1] == "="
            for place in range(start + 1, len(text))
        )
    return False


def refuse_unguarded(arguments: Sequence[Argument], parts: Sequence[Part]) -> None:
    """Beside a guard only options are allowed of which it is known that they lead nowhere."""
    for part in parts:
        if not part.known or part.name not in BESIDE_A_GUARD | {"url"}:
            dashes = "-" if len(part.name) == 1 else "--"
            raise RefusedArgument(
                f"{dashes}{part.name} cannot be used where addresses are guarded. Set "
                "blockPrivateAddresses to false if the URL can be trusted."
            )
        if part.argument >= len(arguments):
            raise RefusedArgument(f"--{part.name} has no value")
