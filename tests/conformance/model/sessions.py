"""open, renew, close: workers and the leases that they hold."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import SessionGone
from headrace.records import Kind, Outcome, Ref, Renewal, SessionInfo, SessionSnapshot, State, Token
from headrace.store.contract import NoGuard
from headrace.store.limits import MOST_STRAYS

from .core import Core, Step
from .records import Job, Session


class Sessions(Core):
    def open(self, session: SessionInfo) -> Step[int]:
        return Step(self._open, session)

    def _open(self, info: SessionInfo) -> int:
        if info.id not in self.known_sessions:
            self.known_sessions[info.id] = Session(info, self.clock.now(), self.clock.now(), self.clock.steady())
        if self.known_sessions[info.id].closed:
            raise SessionGone
        self.known_sessions[info.id].info = info
        return self.clock.now()

    def guard(self, session: str) -> NoGuard:
        return NoGuard()

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
        memory: int | None = None,
    ) -> Step[Renewal]:
        return Step(self._renew, session, held, started, complete, memory)

    def _renew(
        self,
        session_id: str,
        named: Sequence[tuple[Ref, Token, str]],
        started: Sequence[Ref],
        complete: int | None,
        memory: int | None,
    ) -> Renewal:
        session = self._live(session_id)
        session.memory = session.memory if memory is None else memory
        self._mark_seen(session)
        self._mark_started(session, started)
        held = {(job.ref, job.token): job for job in self._held(session)}
        return Renewal(
            self.clock.now(),
            [job_id for ref, token, job_id in named if (ref, token) not in held],
            [job_id for ref, token, job_id in named if (ref, token) in held and held[ref, token].cancelling],
            strays=self._strays(session, named, complete),
            data={
                job_id: held[ref, token].data
                for ref, token, job_id in named
                if (ref, token) in held and held[ref, token].updated
            },
            stop=session.stopping,
        )

    def stop_session(self, session: str) -> Step[bool]:
        return Step(self._stop_session, session)

    def _stop_session(self, session_id: str) -> bool:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed:
            return False
        session.stopping = True
        return True

    def _strays(
        self, session: Session, named: Sequence[tuple[Ref, Token, str]], complete: int | None
    ) -> list[tuple[Ref, Token, str]]:
        if complete is None or complete < session.number:
            return []
        known = {ref for ref, _, _ in named}
        held = sorted(self._held(session), key=lambda job: job.ref)
        return [(job.ref, job.token, job.id) for job in held if job.ref not in known][:MOST_STRAYS]

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Step[list[str]]:
        return Step(lambda: self._and_work_off(self._close_session(session, crashed)))

    def _close_session(self, session_id: str, crashed: Sequence[Ref] | None) -> list[str]:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed:
            return []
        held = sorted(self._held(session), key=lambda job: job.ref)
        for job in held:
            died = not job.spare if crashed is None else job.ref in crashed
            kind, note = (Kind.CRASHED, "its worker died") if died else (Kind.RELEASED, "")
            if crashed is None:
                self._happened(job, "lost", worker=job.worker)
            self._end(job, Outcome(ref=job.ref, token=job.token, id=job.id, kind=kind, note=note), 0)
            job.token += 1
        session.closed = True
        return [job.id for job in held]

    def sessions(self) -> Step[list[SessionSnapshot]]:
        return Step(self._sessions)

    def _sessions(self) -> list[SessionSnapshot]:
        return [
            SessionSnapshot(
                info=session.info,
                opened=session.opened,
                seen=session.seen_at,
                running=len(self._held(session)),
                alive=not self._expired(session),
                memory=session.memory,
                stopping=session.stopping,
            )
            for session in self._open_sessions()
        ]

    def _live(self, session_id: str, *, settles: bool = False) -> Session:
        session = self.known_sessions.get(session_id)
        if session is None or session.closed or (self._expired(session) and not settles):
            raise SessionGone
        return session

    def _open_sessions(self) -> list[Session]:
        return [session for session in self.known_sessions.values() if not session.closed]

    def _expired(self, session: Session) -> bool:
        silence = self.clock.steady() - session.seen
        return silence >= session.info.timeout and bool(self._held(session))

    def _mark_seen(self, session: Session) -> None:
        session.seen = self.clock.steady()
        session.seen_at = self.clock.now()

    def _mark_started(self, session: Session, started: Sequence[Ref]) -> None:
        for job in self._held(session):
            if job.ref in started:
                job.spare = False

    def _holds(self, session: Session, job: Job, token: Token) -> bool:
        return job.state is State.RUNNING and job.session == session.info.id and job.token == token

    def _held(self, session: Session) -> list[Job]:
        name = session.info.id
        held = [job for job in self.jobs.values() if job.state is State.RUNNING and job.session == name]
        return sorted(held, key=lambda job: job.handed_out)
