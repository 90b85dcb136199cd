"""Variables of the categorization workflow (variables §2.5)."""

from collections.abc import Mapping
from typing import Any


def category_variables(descriptions: Mapping[str, str]) -> dict[str, Any]:
    """From category name -> description, in the order of the routing file."""
    pairs = [f"{name}: {description}" for name, description in descriptions.items()]
    names = list(descriptions)
    return {
        "category_colon_descriptions": "; ".join(pairs),
        "category_colon_descriptions_newline_bulletpoint": "".join(f"\n- {pair}" for pair in pairs),
        "categoriesSeparatedByOr": " or ".join(names),
        "categoryNameBulletpoints": "".join(f"\n- {name}" for name in names),
        "category_list": names,
        "category_descriptions": list(descriptions.values()),
    }
