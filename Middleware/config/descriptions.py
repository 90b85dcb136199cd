"""What models of files say of themselves: the docstrings under their fields, as texts for people.

Read from the source when a page or a schema is written, never while the server runs: pydantic's
own way reads it at every start.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel

_SPECIFICATION = re.compile(r"\s*\([^()]*§[^()]*\)")
"""References to sections of the specification, which users do not have."""


@cache
def field_texts(model: type[BaseModel]) -> Mapping[str, str]:
    """Field -> what its docstring says, in one line; those of parent classes too."""
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            texts.update(_own_texts(cls))
    return texts


def class_text(model: type) -> str:
    """The first sentence of a class's docstring."""
    first, stop, _ = plain_text(model.__doc__ or "").partition(". ")
    return first + stop.strip()


def class_paragraphs(model: type) -> str:
    """All of the docstring of a class, a line a paragraph."""
    paragraphs = inspect.cleandoc(model.__doc__ or "").split("\n\n")
    return "\n\n".join(map(plain_text, paragraphs))


def plain_text(docstring: str) -> str:
    """In one line, with single backticks and without references to the specification."""
    line = " ".join(inspect.cleandoc(docstring).split())
    return _SPECIFICATION.sub("", line).replace("``", "`")


def _own_texts(cls: type[BaseModel]) -> Iterator[tuple[str, str]]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    for statement, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _text_in(below)
            if text is not None:
                yield statement.target.id, plain_text(text)


def _text_in(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value if isinstance(statement.value.value, str) else None
    return None
