import pytest

from Middleware.tools.html_text import visible_text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>a</p><p>b</p>", "a\nb"),
        ("<head><title>t</title></head><body>a</body>", "a"),
        ("<script>var a = '<b>x</b>'</script>a", "a"),
        ("<style>p {}</style>a<noscript>no</noscript><iframe>f</iframe>", "a"),
        ("a &amp; b &eacute; &#9731;", "a & b é ☃"),
        ("  a \n <b> b </b>  ", "a\nb"),
        ("<head><title>t<body>a", "a"),
        ("a</script>b", "a\nb"),
        ("<!-- no -->a", "a"),
        ("a < b", "a < b"),
        ("<noscript><style>x</style>y</noscript>z", "z"),
        ("", ""),
        ("plain", "plain"),
    ],
)
def test_what_a_reader_sees(page: str, text: str) -> None:
    assert visible_text(page) == text
