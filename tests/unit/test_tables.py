"""A table is text: columns as wide as their content, numbers to the right."""

from __future__ import annotations

from spreeze.tables import table


def test_a_table() -> None:
    rows = [["ring", 17_000_000, 0.123456, None], ["queue", 50_000.4, 1.0, True], ["", None, 2, ("a", "b")]]
    assert table(["way", "rows_hz", "share", "note"], rows).splitlines() == [
        "way       rows_hz   share  note",
        "ring   17,000,000  0.1235",
        "queue      50,000       1  True",
        "                        2  a, b",
    ]


def test_no_rows() -> None:
    assert table(["a", "bb"], []) == "a  bb"
