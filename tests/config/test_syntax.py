from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.config.problems import BrokenFile
from Middleware.config.syntax import parse_bytes


@dataclass(frozen=True)
class Broken:
    id: str
    data: bytes
    message: str
    file: str = "a.json"


def _bomb(around: str, first: str = "x") -> bytes:
    """Ten lines, each of which names the one before nine times."""
    lines = [f"a0: &a0 {first}"]
    for number in range(1, 11):
        nine = ", ".join([f"*a{number - 1}"] * 9)
        lines.append(f"a{number}: &a{number} {around.format(nine)}")
    return "\n".join(lines).encode()


BROKEN = [
    Broken(
        id="trailing comma",
        data=b'{\n  "a": 1,\n}',
        message="a.json: line 3, column 1: A comma stands before a closing bracket or brace. "
        "Remove that comma.",
    ),
    Broken(
        id="comment",
        data=b'{"a": 1} // the first',
        message="a.json: line 1, column 10: JSON has no comments. Remove it.",
    ),
    Broken(
        id="single quotes",
        data=b"{'a': 1}",
        message="a.json: line 1, column 2: JSON knows only double quotes. Write \" instead of '.",
    ),
    Broken(
        id="cut off",
        data=b'{"a": [1',
        message="a.json: line 1, column 9: The file ends too early. "
        "A closing bracket, brace or quote is missing.",
    ),
    Broken(
        id="no comma",
        data=b'{"a": 1\n "b": 2}',
        message="a.json: line 2, column 2: A comma is missing before this. Put one there.",
    ),
    Broken(
        id="no colon",
        data=b'{"a" 1}',
        message="a.json: line 1, column 6: A colon is missing after the key. Put one there.",
    ),
    Broken(
        id="bare key",
        data=b"{a: 1}",
        message="a.json: line 1, column 2: A key was expected here. "
        'Put the key in "double quotes".',
    ),
    Broken(
        id="bare word",
        data=b'{"a": True}',
        message="a.json: line 1, column 7: A value was expected here. Text needs double quotes.",
    ),
    Broken(
        id="backslash of a Windows path",
        data=rb'{"a": "D:\workflows"}',
        message="a.json: line 1, column 10: A backslash stands before a character that needs "
        r"none. Write it as \\.",
    ),
    Broken(
        id="text after the end",
        data=b"{}}",
        message="a.json: line 1, column 3: Something follows after the end of the value. "
        "Remove it.",
    ),
    Broken(
        id="not a number",
        data=b'{"a": NaN}',
        message="a.json: NaN is no JSON value. Write a number or null.",
    ),
    Broken(
        id="half a surrogate pair",
        data=rb'{"a": "\ud83d"}',
        message=r"a.json: The file holds one half of a \uD800-\uDFFF pair. "
        "Write both halves, or the character itself.",
    ),
    Broken(
        id="nested too deeply",
        data=b"[" * 200_000,
        message="a.json: The values are nested too deeply.",
    ),
    Broken(id="empty", data=b" \n", message="a.json: The file is empty."),
    Broken(
        id="another encoding",
        data='{\n"a": "é"}'.encode("latin-1"),
        message="a.json: line 2: This line is not UTF-8. Save the file as UTF-8.",
    ),
    Broken(
        id="UTF-16",
        data="{}".encode("utf-16"),
        message="a.json: The file is written in UTF-16. Save it as UTF-8.",
    ),
    Broken(
        id="YAML with a tab",
        data=b"a:\n\tb: 1",
        message="a.yaml: line 2, column 1: This is no YAML: while scanning for the next token, "
        r"found character '\t' that cannot start any token.",
        file="a.yaml",
    ),
    Broken(
        id="YAML with an open bracket",
        data=b"a: [1\nb: 2",
        message="a.yaml: line 2, column 2: This is no YAML: while parsing a flow sequence, "
        "expected ',' or ']', but got ':'.",
        file="a.yaml",
    ),
    Broken(
        id="YAML that would run code",
        data=b"a: !!python/object/apply:os.getcwd []",
        message="a.yaml: line 1, column 4: This is no YAML: could not determine a constructor "
        "for the tag 'tag:yaml.org,2002:python/object/apply:os.getcwd'.",
        file="a.yaml",
    ),
    Broken(
        id="two YAML documents",
        data=b"a: 1\n---\nb: 2",
        message="a.yaml: line 2, column 1: This is no YAML: expected a single document in the "
        "stream, but found another document.",
        file="a.yaml",
    ),
    Broken(
        id="YAML with comments only", data=b"# a", message="a.yml: The file is empty.", file="a.yml"
    ),
    Broken(
        id="aliases of aliases",
        data=_bomb("[{}]"),
        message="a.yaml: Its aliases stand for more than 1,000,000 values. Write out what is "
        "needed.",
        file="a.yaml",
    ),
    Broken(
        id="merges of merges",
        data=_bomb("{{<<: [{}]}}", "{k: 1}"),
        message="a.yaml: Its aliases stand for more than 1,000,000 values. Write out what is "
        "needed.",
        file="a.yaml",
    ),
    Broken(
        id="a long text that is named often",
        data=b"a: &a '" + b"x" * 100_000 + b"'\nb: [" + b"*a, " * 1000 + b"]",
        message="a.yaml: Its aliases stand for more than 1,000,000 values. Write out what is "
        "needed.",
        file="a.yaml",
    ),
    Broken(
        id="an alias of what it stands in",
        data=b"a: &a\n  b: *a",
        message="a.yaml: line 1, column 4: A value holds itself. Remove the alias.",
        file="a.yaml",
    ),
    Broken(
        id="half a surrogate pair in YAML",
        data=b'a: "\\ud800"',
        message=r"a.yaml: The file holds one half of a \uD800-\uDFFF pair. Write both halves, or "
        "the character itself.",
        file="a.yaml",
    ),
    Broken(
        id="YAML with a control character",
        data=b"a: 1\nb: \x01",
        message="a.yaml: line 2: This line holds a character that YAML does not allow. Remove it.",
        file="a.yaml",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in BROKEN])
def test_a_broken_file_says_where_and_what_would_be_right(case: Broken) -> None:
    with pytest.raises(BrokenFile) as caught:
        parse_bytes(case.data, case.file)

    assert caught.value.message == case.message


@dataclass(frozen=True)
class Good:
    id: str
    data: str
    value: Any
    file: str = "a.yaml"


GOOD = [
    Good(
        id="JSON",
        data='{"a": [1, 2.5, null, true]}',
        value={"a": [1, 2.5, None, True]},
        file="a.json",
    ),
    Good(id="byte-order mark", data="\ufeff{}", value={}, file="a.json"),
    Good(id="upper-case suffix", data="{}", value={}, file="a.JSON"),
    Good(id="a whole surrogate pair", data=r'["\ud83d\ude00"]', value=["😀"], file="a.json"),
    Good(id="a date stays text", data="a: 2025-09-01", value={"a": "2025-09-01"}),
    Good(id="a time of day stays text", data="a: 22:30", value={"a": "22:30"}),
    Good(id="keys are text", data="1: a\non: b\nyes: c", value={"1": "a", "on": "b", "yes": "c"}),
    Good(id="yes is true", data="a: yes", value={"a": True}),
    Good(id="block text", data="a: |\n  x\n  y\n", value={"a": "x\ny\n"}),
    Good(id="list", data="- a\n- {b: 1}", value=["a", {"b": 1}]),
    Good(
        id="an alias named twice",
        data="x: &x [1]\ny: [*x, *x]\n",
        value={"x": [1], "y": [[1], [1]]},
    ),
    Good(
        id="merge",
        data="x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  a: 3\n",
        value={"x": {"a": 1, "b": 2}, "y": {"a": 3, "b": 2}},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in GOOD])
def test_a_file_becomes_plain_values(case: Good) -> None:
    assert parse_bytes(case.data.encode(), case.file) == (case.value, ())


@pytest.mark.parametrize(
    ("file", "data", "place"),
    [
        ("a.json", '{"a": {"b": 1, "b": 2}}', "b"),
        ("a.yaml", "a:\n  b: 1\n  b: 2\n", "line 3, column 3"),
    ],
)
def test_a_key_given_twice_is_a_warning_and_the_last_one_counts(
    file: str, data: str, place: str
) -> None:
    value, problems = parse_bytes(data.encode(), file)

    assert value == {"a": {"b": 2}}
    assert [(p.code, p.severity, p.place) for p in problems] == [
        ("duplicate_key", "warning", place)
    ]
