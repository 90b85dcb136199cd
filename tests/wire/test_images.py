import pytest

from Middleware.core.errors import RequestError
from Middleware.wire.images import InlineImage, bare_base64, is_address, parse_inline

BARE = "iVBORw0KGgo" + "A" * 89


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("data:image/png;base64,iVBORw0KGgo=", InlineImage("image/png", "iVBORw0KGgo=")),
        ("data:image/webp;charset=utf-8;base64,AAAA", InlineImage("image/webp", "AAAA")),
        ("data:text/plain;base64,AAAA", None),
        ("data:image/png,AAAA", None),
        ("data:image/png;base64", None),
        (BARE, InlineImage("image/png", BARE)),
        ("/9j/" + "A" * 96, InlineImage("image/jpeg", "/9j/" + "A" * 96)),
        ("A" * 100, InlineImage(None, "A" * 100)),
        ("A" * 98 + "==", InlineImage(None, "A" * 98 + "==")),
        ("A" * 99, None),
        ("A" * 96, None),
        ("https://pics.test/a.png", None),
        ("file:///etc/passwd", None),
        ("", None),
    ],
)
def test_parse_inline(image: str, expected: InlineImage | None) -> None:
    assert parse_inline(image) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [("https://a.test/x", True), ("HTTP://a.test/x", True), ("ftp://a", False), ("data:x", False)],
)
def test_is_address(image: str, expected: bool) -> None:
    assert is_address(image) is expected


def test_bare_base64() -> None:
    assert bare_base64("data:image/png;base64,AA") == "AA"
    assert bare_base64("whatever") == "whatever"
    with pytest.raises(RequestError, match="image data only"):
        bare_base64("https://pics.test/a.png")
