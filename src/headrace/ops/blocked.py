"""Jobs that wait for jobs that have failed: nothing but a person moves them on. For `headrace doctor`."""

from __future__ import annotations

from headrace.records import Filter, Snapshot, State
from headrace.store import Store
from headrace.store.batches import thousands
from headrace.store.contract import Facet
from headrace.store.facets import Explaining, facet
from headrace.store.paging import whole_page

LOOKED_AT = 1_000
"""So many of the newest blocked jobs are looked at,"""
PARENTS = 10_000
"""so many of the jobs that they come after,"""
ASKED = 100
"""and so many that come after a failed one are asked whether they wait for it."""

ENDED_BADLY = (State.FAILED, State.CANCELLED)


def blocked_by_failed(store: Store) -> list[str]:
    """A sentence, if there are such jobs. With `if_failed="run"` a failed parent is in nobody's way: not these."""
    if not {Facet.RELATIONS, Facet.WHY} <= store.facets:
        return []
    stuck: list[tuple[str, str]] = []
    candidates = _after_failed(store)
    for job in candidates[:ASKED]:
        found = store.run(facet(store, Explaining).circumstances(job.id))
        culprits = [parent for parent, state in found.waits_for if state in ENDED_BADLY] if found else []
        stuck += [(job.id, culprit) for culprit in culprits[:1]]
    if not stuck:
        return []
    more = "at least " if len(candidates) > ASKED else ""
    number = "1 job waits" if len(stuck) == 1 and not more else f"{more}{len(stuck)} jobs wait"
    child, parent = stuck[0]
    return [
        f"{number[0].upper()}{number[1:]} for jobs that failed or were cancelled, such as {child} for {parent}. "
        f"To run that again: headrace revive {parent}; to give up what waits: headrace cancel {child}"
    ]


def _after_failed(store: Store) -> list[Snapshot]:
    """Blocked jobs that come after one that failed or was cancelled, as far as one look goes."""
    blocked = whole_page(store, Filter(states=(State.BLOCKED,), limit=LOOKED_AT)).jobs
    parents = list(dict.fromkeys(parent for job in blocked for parent in job.after))[:PARENTS]
    found = [job for ids in thousands(parents) for job in store.run(store.get(ids))]
    failed = {job.id for job in found if job is not None and job.state in ENDED_BADLY}
    return [job for job in blocked if not failed.isdisjoint(job.after)]
