"""Which test proves which rule of durable conversations; the numbers are the specification's.

A rule is looked up in ``rules.txt`` before it is changed: its number, then names of tests, or files
where all of them are the proof.
"""

import re
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

LAST = {
    **{"START": 4, "SIG": 4, "ACC": 5, "ORD": 5, "IDEM": 5, "TGT": 4, "LIFE": 2, "LOOP": 5},
    **{"MODEL": 7, "PROP": 3, "DEC": 9, "REP": 5, "STAT": 6, "CAN": 9, "END": 5, "FAIL": 9},
    **{"LEASE": 5, "REPAIR": 8, "HIST": 5, "CLI": 7, "FAKE": 5, "ENG": 11, "MAP": 8, "HTTP": 4},
    **{"RESP": 10, "CHAT": 10, "PLAN": 8, "TRAP": 9},
}
"""How many rules each group has. PLAN is the list of the test plan; TRAP are known traps of
durable engines: order by time, forgotten request ids, acceptance after the end, changed versions,
doubled executor ids, work of the dead, queue settings, repeated streams, polling for results."""

TABLE = Path(__file__).with_name("rules.txt")
ROWS = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines()]


def test_every_rule_has_a_proof() -> None:
    expected = [f"{group}-{number}" for group in LAST for number in range(1, LAST[group] + 1)]

    assert [row[0] for row in ROWS] == expected
    assert all(len(row) > 1 for row in ROWS)
    assert [group for group, _ in groupby(row[0].split("-")[0] for row in ROWS)] == list(LAST)


def test_every_proof_exists() -> None:
    sources = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    known = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}
    named = {proof for row in ROWS for proof in row[1:]}
    files = {proof for proof in named if proof.endswith(".py")}

    assert [name for name in sorted(named - files) if name not in known] == []
    assert [file for file in sorted(files) if not (TESTS / file).is_file()] == []
