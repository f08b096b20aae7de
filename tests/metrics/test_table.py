"""The table of metrics, and what is held against it: the page, the rules for alerts, the dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.metrics.table import METRICS, Kind, Metric, Source
from headrace.worker.meter import OUTCOMES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "telemetry.md"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "headrace.json"


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


def test_the_page_has_the_table_row_by_row() -> None:
    """The rows of this test, if the page is to be written anew: pytest prints them."""
    page = PAGE.read_text("utf-8")
    for source in Source:
        rows = [row(metric) for metric in METRICS.values() if metric.source is source]
        assert "\n".join(rows) in page, "\n".join(rows)
    assert set(re.findall(r"^\| `(headrace_\w+)`", page, re.MULTILINE)) == set(METRICS)
    for outcome in OUTCOMES:
        assert f"`{outcome}`" in page


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_names_follow_the_conventions_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"headrace(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER)
    assert not re.search(r"(milliseconds|_ms|minutes|_kb|megabytes|percent)\b", metric.name)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert metric.help.endswith(".")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]


def queries_of(panels: list[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", ()))
        yield from queries_of(panel.get("panels", []))


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return found


def queries() -> list[str]:
    _, *variables = dashboard()["templating"]["list"]
    texts = (variable["query"]["query"] for variable in variables)
    return [*(rule["expr"] for rule in rules()), *queries_of(dashboard()["panels"]), *texts]


def test_there_are_rules_and_panels() -> None:
    assert len(rules()) >= 8
    assert len(list(queries_of(dashboard()["panels"]))) >= 10


@pytest.mark.parametrize("query", queries())
def test_every_query_names_metrics_and_labels_that_exist_and_is_balanced(query: str) -> None:
    suffixes = ("_bucket", "_sum", "_count")
    known = {f"{m.name}{suffix}": m for m in METRICS.values() if m.kind is Kind.HISTOGRAM for suffix in suffixes}
    known |= {name: metric for name, metric in METRICS.items() if metric.kind is not Kind.HISTOGRAM}
    named = re.findall(r"headrace_\w+", query)
    assert named
    assert set(named) <= set(known)
    for name, labels in re.findall(r"(headrace_\w+)\{([^}]*)\}", query):
        used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", labels)
        assert set(used) <= {*known[name].labels, "le", "job", "instance"}, (name, used)
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    for opening, closing in ("()", "{}", "[]"):
        assert plain.count(opening) == plain.count(closing)
    depth = 0
    for character in plain:
        depth += (character == "(") - (character == ")")
        assert depth >= 0
    for name, kind in ((name, known[name].kind) for name in named):
        counted = rf"(rate|increase)\([^()]*\b{name}\b[^()]*\[[^\]]+\]"
        assert (kind is Kind.GAUGE) or re.search(counted, query), f"{name} is a counter: it needs rate() or increase()"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Headrace([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].endswith(".")


def test_alerts_have_names_of_their_own() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_the_dashboard_takes_its_source_from_a_variable_and_panels_have_numbers_of_their_own() -> None:
    found = dashboard()
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"} == {"${source}"}
    assert found["templating"]["list"][0] == {
        "name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus",
    }  # fmt: skip
    for panel in panels:
        assert 0 <= panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
