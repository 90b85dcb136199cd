"""Which routes there are, for the pages that tell of them."""

from dataclasses import dataclass

from flask import Flask


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRoute:
    """One thing that can be asked for."""

    paths: tuple[str, ...]
    """As Flask writes rules. The first one is the usual."""
    method: str
    endpoint: str
    """Flask's name of the view."""
    text: str
    """What its view says of itself."""


def routes_of(app: Flask) -> list[ServedRoute]:
    """All but HEAD and OPTIONS, which follow from the others."""
    paths: dict[tuple[str, str], list[str]] = {}
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            paths.setdefault((rule.endpoint, method), []).append(rule.rule)
    return [
        ServedRoute(
            paths=tuple(sorted(alike, key=len, reverse=True)),
            method=method,
            endpoint=endpoint,
            text=app.view_functions[endpoint].__doc__ or "",
        )
        for (endpoint, method), alike in paths.items()
    ]
