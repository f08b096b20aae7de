"""Asking a server for its metrics, and reading them with the library's own parser."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from processes import WorkerProcess

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def url_of(worker: WorkerProcess) -> str:
    return worker.logged(r"metrics at (http://\S+)/metrics").group(1)


def get(url: str, **headers: str) -> tuple[int, str, str]:
    """Status, content type and text of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def parse(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def names(text: str) -> set[str]:
    """Of all families that a text declares."""
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def parse_openmetrics(text: str) -> Iterator[object]:
    return openmetrics.text_string_to_metric_families(text)


def scrape(url: str) -> Samples:
    status, _, text = get(f"{url}/metrics")
    assert status == 200, text
    return parse(text)


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum of all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(number for (found, its), number in samples.items() if found == name and wanted <= its)
