"""Results in the form that build servers read."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One test that was run."""

    file: str
    name: str
    seconds: float
    failures: tuple[str, ...]
    """Empty: it passed."""


def junit_xml(results: Sequence[Result]) -> bytes:
    """One suite a file of tests."""
    root = ElementTree.Element("testsuites")
    for file in dict.fromkeys(result.file for result in results):
        own = [result for result in results if result.file == file]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=file,
            tests=str(len(own)),
            failures=str(sum(bool(result.failures) for result in own)),
            time=f"{sum(result.seconds for result in own):.3f}",
        )
        for result in own:
            _add(suite, result)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _add(suite: ElementTree.Element, result: Result) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=result.file,
        name=_legal(result.name),
        time=f"{result.seconds:.3f}",
    )
    for text in result.failures:
        first = text.partition("\n")[0]
        failure = ElementTree.SubElement(case, "failure", message=_legal(first))
        failure.text = _legal(text)


def _legal(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(
        sign if sign in "\t\n" or (sign >= " " and not "\ud800" <= sign <= "\udfff") else "\ufffd"
        for sign in text
        if sign not in "\ufffe\uffff"
    )
