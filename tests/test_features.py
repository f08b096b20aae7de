"""docs/features.md says what the stores can do: no gap without a sentence."""

from __future__ import annotations

import re

import features
from headrace.options import OF_CALL
from headrace.store.contract import Facet


def test_the_page_is_what_the_stores_say() -> None:
    written = features.PAGE.read_text(encoding="utf-8")
    assert written == features.page(), "run: PYTHONPATH=tests python -m features"


def test_no_gap_is_without_a_sentence() -> None:
    text = features.page()
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    headed = [row for row in rows if not row.startswith(("| facet", "| option", "| operation"))]
    assert len(headed) == len(Facet) + len(OF_CALL) + len(features.OPERATIONS)
    cells = [cell.strip() for row in headed for cell in row.strip("|").split("|")[1:]]
    assert all(re.fullmatch(r"yes|(no|partly) \(\d+\)", cell) for cell in cells)
    numbers = {int(number) for number in re.findall(r" (?:no|partly) \((\d+)\)", text)}
    sentences = re.findall(r"^(\d+)\. (.+\.)$", text, re.MULTILINE)
    assert numbers == {int(number) for number, _ in sentences}


def test_all_native_stores_can_do_the_same_but_for_sql() -> None:
    for store in features.NATIVE.values():
        assert store.facets >= set(Facet) - {Facet.SQL}
