"""A session of this process: which jobs it holds, and until when. Bedrock knows nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.dialects import lease_book
from headrace.dialects.bedrock.mapping import Found, time_left
from headrace.records import Ref, Token, Verdict
from headrace.values.clock import Clock


@dataclass(slots=True)
class Hold:
    """A job in hand."""

    found: Found
    token: int
    tries: int
    ends: int | None
    """When others may get it, on the steady clock."""
    said: bytes | None = None
    """What its run has left in its data."""
    reported: int = 0
    """How many requests about its end Bedrock has answered: some ends take two."""
    told: bool = False
    """Bedrock may know of its end."""
    unsure: bool = False
    """A request about its end may have been done: a refusal of the next one is no surprise."""

    @property
    def id(self) -> str:
        return str(self.found.job_id)

    @property
    def data(self) -> bytes:
        return bytes(self.found.data)


class Session(lease_book.Session[Hold]):
    """A session's jobs, and its last request for more."""

    def __init__(self, session_id: str, clock: Clock) -> None:
        super().__init__(session_id)
        self._clock = clock
        self.arrived: list[Found] = []
        """Jobs that came while waiting, for the worker's next request."""
        self.inherited: list[int] = []
        """Jobs of a process that has died."""
        self.room = 0
        """How many more jobs the worker would take: 0 while its slots are full."""
        self.names: list[str] = []
        """The names that it takes, as values of GetJobs' `name`."""
        self.verdicts: dict[int, Verdict] = {}
        """The verdicts of the request that is under way, by the places of its outcomes."""

    def lay_aside(self, jobs: Sequence[Found]) -> None:
        self.arrived += jobs
        self.write_down()

    def until(self, left: int | None) -> int | None:
        """When others may get a job that is ours for so many milliseconds, on the steady clock; None: never."""
        # A second is lost to Bedrock's rounding, another is for the way.
        return None if left is None else self._clock.steady() + max(left - 2_000, left * 3 // 4)

    def is_over(self, hold: Hold) -> bool:
        return hold.ends is not None and self._clock.steady() >= hold.ends

    def current(self, ref: Ref, token: Token) -> Hold | None:
        hold = self.held.get(ref)
        return None if hold is None or hold.token != token or self.is_over(hold) else hold

    def fences(self) -> Mapping[Ref, Sequence[Any]]:
        """The jobs in hand, and until when on the machine's clock.

        A job whose end Bedrock may know of is left out: it may be another worker's, and RequeueJobs has no owner.
        """
        held: dict[Ref, Sequence[Any]] = {ref: (hold.ends,) for ref, hold in self.held.items() if not hold.told}
        for found in self.arrived:
            held[found.job_id] = (self.until(time_left(found, self._clock.now())),)
        return held

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """Take over the jobs that can't be another worker's yet."""
        now = self._clock.steady()
        self.inherited = [int(ref) for ref, (ends,) in held.items() if ends is None or now < ends]
