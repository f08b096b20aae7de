"""Damaged jobs, of which a store cannot read all that it has: what is said about them when they are set aside."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.records import Filter, Snapshot, State

GROUP = "damaged"
"""The group that they fail in."""
SHOWN = 10
"""How many are named, at most."""
ANY = Filter(group=GROUP, limit=SHOWN + 1)
"""Not by their state, so that jobs are looked at: those that no request has met yet are met now."""
SET_ASIDE = Filter(group=GROUP, states=(State.FAILED,), limit=SHOWN + 1)
"""By the index of failed jobs: all that have been met."""

log = logging.getLogger("headrace.store")


def tell(job_id: str) -> None:
    """For the process that has set it aside: this happens once to a job."""
    log.warning(
        "Job %s is damaged: it was set aside in the failure group `%s`. Look at it, then delete it.", job_id, GROUP
    )


def advice(found: Sequence[Snapshot]) -> list[str]:
    """What an operator should know about those that were found."""
    if not found:
        return []
    named = ", ".join(job.id for job in found[:SHOWN]) + (", ..." if len(found) > SHOWN else "")
    return [
        f"Damaged jobs were set aside in the failure group `{GROUP}`: {named}. `headrace job ID` shows what is left of "
        "one, `headrace delete ID` removes it. Find out what else writes to the store."
    ]
