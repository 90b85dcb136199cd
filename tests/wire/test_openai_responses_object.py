from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.wire.openai_responses import (
    Outcome,
    Page,
    ResponseHead,
    encode_deleted,
    encode_items,
    encode_response,
    parse_page,
    parse_request,
)

ITEMS: list[dict[str, Any]] = [{"id": "a"}, {"id": "b"}, {"id": "c"}]


def listed(data: list[str], *, more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [{"id": name} for name in data],
        "first_id": data[0] if data else None,
        "last_id": data[-1] if data else None,
        "has_more": more,
    }


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Page(), listed(["c", "b", "a"], more=False)),
        (Page(newest_first=False, limit=2), listed(["a", "b"], more=True)),
        (Page(newest_first=False, limit=2, after="b"), listed(["c"], more=False)),
        (Page(after="b", limit=1), listed(["a"], more=False)),
        (Page(after="a"), listed([], more=False)),
    ],
)
def test_pages(page: Page, expected: dict[str, Any]) -> None:
    assert encode_items(ITEMS, page) == expected


def test_a_page_must_begin_somewhere() -> None:
    with pytest.raises(MalformedRequest, match="names no item"):
        encode_items(ITEMS, Page(after="x"))


def test_queries() -> None:
    assert parse_page({}) == Page()
    assert parse_page({"after": "a", "limit": "5", "order": "asc"}) == Page(
        after="a", limit=5, newest_first=False
    )


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "x"}, {"limit": "101"}, {"order": "up"}]
)
def test_wrong_queries(query: dict[str, str]) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_page(query)

    assert caught.value.param == next(iter(query))


def test_a_response_belongs_to_its_conversation() -> None:
    asked = parse_request({"input": "hi", "conversation": "conv_1"})
    head = ResponseHead(id="resp_1", created_at=0, model="m", asked=asked)
    new = ResponseHead(
        id="resp_1", created_at=0, model="m", asked=parse_request({"input": "hi"}), conversation="c"
    )

    assert encode_response(head, Outcome(status="queued"))["conversation"] == {"id": "conv_1"}
    assert encode_response(head, Outcome(status="queued"))["status"] == "queued"
    assert encode_response(new, Outcome())["conversation"] == {"id": "c"}


def test_a_deleted_response() -> None:
    assert encode_deleted("resp_1") == {"id": "resp_1", "object": "response", "deleted": True}
