import pytest

from Middleware.api.errors import ErrorShapes, status_line
from Middleware.core.errors import MiddlewareError


def test_the_longest_prefix_decides_the_shape_of_an_error() -> None:
    shapes = ErrorShapes(lambda error: {"default": error.message})
    shapes.register("/api/", lambda error: {"api": error.message})
    shapes.register("/api/runs", lambda error: {"runs": error.message})

    error = MiddlewareError("x")

    assert shapes.body({"PATH_INFO": "/v1/models"}, error) == b'{"default":"x"}'
    assert shapes.body({"PATH_INFO": "/api/tags"}, error) == b'{"api":"x"}'
    assert shapes.body({"PATH_INFO": "/api/runs/1"}, error) == b'{"runs":"x"}'


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (200, "200 OK"),
        (404, "404 Not Found"),
        (499, "499 Client Closed Request"),
        (529, "529 Error"),
    ],
)
def test_every_status_has_a_line(status: int, line: str) -> None:
    assert status_line(status) == line
