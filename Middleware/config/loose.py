"""The base of every typed file, and the lenient types that existing files need.

Every leniency is a type or a validator here or in ``models.py``, and nobody further in knows
of it.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class FileModel(BaseModel):
    """A file, or a part of one. Unknown keys are kept in ``model_extra``: files of others must
    load, and a typo must still be seen by ``check``.
    """

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )


class Settings(FileModel):
    """A file of settings: null counts as "not given", and so does blank text for a number.

    Fields that may be None keep the null.
    """

    _null_is_absent: ClassVar[frozenset[str]] = frozenset()
    _blank_is_absent: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        null: set[str] = set()
        blank: set[str] = set()
        for name, field in cls.model_fields.items():
            keys = {name, field.alias or name}
            if type(None) not in get_args(field.annotation):
                null |= keys
            if field.annotation in (int, float, bool):
                blank |= keys
        cls._null_is_absent = frozenset(null)
        cls._blank_is_absent = frozenset(blank)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_absent(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            return raw
        return {
            key: value
            for key, value in raw.items()
            if not (value is None and key in cls._null_is_absent)
            and not (isinstance(value, str) and not value.strip() and key in cls._blank_is_absent)
        }


_TRUE = {"true", "1", "yes", "on"}


def _loose_bool(value: Any) -> Any:
    return value.strip().lower() in _TRUE if isinstance(value, str) else value


def _loose_int(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("must be a whole number")
        return int(value)
    if isinstance(value, str):
        return value.strip() or None
    return value


def _loose_text(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _texts(value: Any) -> Any:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


# What files may hold is wider than what they become: `json_schema_input_type` says it to the
# schemas that are made of these types.
_Number = int | float | str | None

LooseBool = Annotated[bool, BeforeValidator(_loose_bool, json_schema_input_type=bool | str)]
"""A boolean that may be written as text: true, 1, yes, on (any case) are true, others false."""
LooseInt = Annotated[int | None, BeforeValidator(_loose_int, json_schema_input_type=_Number)]
"""A whole number that may be written as text or with a fraction; empty text is absent."""
Whole = Annotated[int, BeforeValidator(_loose_int, json_schema_input_type=_Number)]
"""Like LooseInt, for a key that has a default: absent, null and empty text mean the default."""
AtLeastOne = Annotated[
    int,
    BeforeValidator(_loose_int, json_schema_input_type=_Number),
    AfterValidator(lambda n: max(1, n)),
]
"""Like Whole; smaller numbers count as one."""
Text = Annotated[str, BeforeValidator(_loose_text, json_schema_input_type=str | int | float | None)]
"""Text; null counts as empty, a number as its digits."""
TextOrNone = Annotated[str | None, BeforeValidator(_blank_is_none)]
"""Text; blank counts as absent."""
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_texts, json_schema_input_type=str | tuple[str, ...] | None),
]
"""A list of texts, or one text by itself."""
