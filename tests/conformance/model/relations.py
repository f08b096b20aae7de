"""Relations: jobs that wait for jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.errors import ConfigurationError, DependencyCycle
from headrace.records import IfFailed, State
from headrace.store import limits

from .core import Core, Step, T
from .records import WAITING, Edge, Ended, Job


class Relations(Core):
    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Step[bool]:
        return Step(lambda: self._and_work_off(self._depend(job_id, add, remove)))

    def _depend(self, job_id: str, add: Sequence[str], remove: Sequence[str]) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in WAITING:
            return False
        lane = self._lane_of(job)
        if add and job.lane and lane and lane.lane.sequence:
            raise ConfigurationError(limits.no_dependencies_in(job.queue, job.lane))
        for parent_id in add:
            if self._is_waited_for([parent_id], job):
                raise limits.cycle(job_id, parent_id)
        waited = self._unmet(job)
        kept = [i for i in job.after if i not in remove or i in add]
        after = tuple(dict.fromkeys([*kept, *add]))
        limits.check_parents(job_id, len(after))
        job.after = after
        self.edges = [
            edge
            for edge in self.edges
            if edge.child is not job or edge.parent.id in add or edge.parent.id not in remove
        ]
        for parent in self._named(set(remove) - set(add)):
            parent.followers.discard(job)
        self._edited(job, limits.what_depends(add, remove))
        culprit = self._come_after(job, add, job.if_failed)
        if culprit is not None:
            self._fail_with(job, culprit, culprit.state)
        elif waited and not self._unmet(job):
            self._release(job)
        elif not waited and self._unmet(job):
            due = self._own_due(job)
            self._leave(job)
            self._wait_in_line(job, due, was_due=not job.later)
        return True

    def _unmet(self, job: Job) -> list[Edge]:
        return [edge for edge in self.edges if edge.child is job]

    def _unfinished(self, job: Job) -> bool:
        return self.jobs.get(job.id) is job and not job.state.final

    def _named(self, ids: Iterable[str]) -> list[Job]:
        return [self.jobs[i] for i in ids if i in self.jobs]

    def dependants(self, job_id: str, limit: int = 100) -> Step[list[tuple[str, State]]]:
        return Step(self._dependants, job_id, limit)

    def _dependants(self, job_id: str, limit: int) -> list[tuple[str, State]]:
        parent = self.jobs.get(job_id)
        followers = [] if parent is None else [job for job in self.jobs.values() if job in parent.followers]
        return [(job.id, job.state) for job in followers if not job.state.final][:limit]

    def _is_needed(self, job: Job) -> bool:
        """Whether an ended job may still be asked for its result: by one that comes after it, and has not ended."""
        return any(
            self._unfinished(follower) and (job.state is State.DONE or not self._unmet(follower))
            for follower in job.followers
        )

    def _come_after(self, child: Job, ids: Sequence[str], policy: IfFailed) -> Job | None:
        """Let a job wait for others. Answers with the first of them because of which it fails at once."""
        culprit = None
        for parent in self._named(ids):
            parent.followers.add(child)
            if parent.state is State.DONE or (parent.state.final and policy is IfFailed.RUN):
                continue
            if parent not in [edge.parent for edge in self._unmet(child)]:
                self.last_edge += 1
                self.edges.append(Edge(self.last_edge, parent, child, policy))
            if parent.state.final and policy is IfFailed.FAIL:
                child.culprits.add(parent)
                culprit = culprit or parent
        return culprit

    def _is_waited_for(self, ids: Sequence[str], job: Job) -> bool:
        """Whether one of these is the job, or waits for it, by whatever detour."""
        ahead = [self.jobs[i] for i in ids if i in self.jobs]
        seen = set(ahead)
        looked_at = 0
        while ahead:
            other = ahead.pop()
            if other is job:
                return True
            edges = self._unmet(other)
            looked_at += len(edges)
            if looked_at > limits.EDGES_TO_CHECK:
                raise limits.too_deep(job.id)
            parents = {edge.parent for edge in edges} - seen
            seen |= parents
            ahead += parents
        return False

    def _why_not_wait(self, job: Job, ids: Sequence[str]) -> str:
        lane = self._lane_of(job)
        if job.lane and lane and lane.lane.sequence:
            return limits.no_dependencies_in(job.queue, job.lane)
        children = [i for i in ids if i in self.jobs and not self.jobs[i].state.final]
        try:
            return limits.WAITS_FOR_ITSELF if self._is_waited_for(children, job) else ""
        except DependencyCycle:
            return limits.TOO_DEEP_TO_WAIT

    def _wait_for_children(self, job: Job, ids: Sequence[str], delay: int | None, due: int) -> None:
        for parent in self._named(job.after):
            parent.followers.discard(job)
        job.after, job.resumed = tuple(ids), True
        self._come_after(job, ids, IfFailed.RUN)
        job.delay = delay if self._unmet(job) else None
        self._wait_in_line(job, due)

    def _has_ended(self, job: Job, how: State | None, *, met: bool) -> None:
        """Note it, if other jobs wait for it. The same for a job that is revived."""
        numbers = [edge.number for edge in self.edges if edge.parent is job]
        if numbers:
            self.ended.append(Ended(job, how, met, 0, max(numbers)))

    def _and_work_off(self, answer: T) -> T:
        self._work_off()
        return answer

    def _work_off(self) -> None:
        """Tell the dependents of what has ended or was revived, in bounded steps."""
        left = limits.EDGES_IN_A_STEP
        while self.ended and left > 0:
            ended = self.ended[0]
            for edge in [e for e in self.edges if e.parent is ended.parent and ended.seen < e.number <= ended.upto]:
                if left <= 0:
                    break
                left -= 1 + self._look_at(edge, ended)
                ended.seen = edge.number
            else:
                self.ended.pop(0)

    def _look_at(self, edge: Edge, ended: Ended) -> int:
        """Answers with what that costs beyond the edge itself."""
        if ended.how is State.READY:
            return self._forgive(edge.child, ended.parent)
        child = edge.child
        met = ended.met or edge.policy is IfFailed.RUN
        fails = not met and (ended.how is None or edge.policy is IfFailed.FAIL)
        if met or ended.how is None:
            self.edges.remove(edge)
        if fails:
            child.culprits.add(ended.parent)
        if child.state is not State.BLOCKED:
            return 0
        if fails:
            self._fail_with(child, ended.parent, ended.how)
        elif not self._unmet(child):
            self._release(child)
        return 0

    def _forgive(self, child: Job, parent: Job) -> int:
        """A culprit was revived. Without the last of them, the job that failed with them waits again."""
        if parent not in child.culprits:
            return 0
        child.culprits.remove(parent)
        if child.culprits or child.state is not State.FAILED or self._key_is_taken(child):
            return 0
        self._bring_back(child, child.due)
        return len(child.after)

    def _release(self, job: Job) -> None:
        if job.delay is None:
            self._wait_in_line(job, job.due, was_due=not job.later)
        else:
            delay, job.delay = job.delay, None
            self._wait_in_line(job, self.clock.now() + delay)

    def _fail_with(self, job: Job, parent: Job, how: State | None) -> None:
        if how is State.FAILED:
            known = parent.state is State.FAILED and self.jobs.get(parent.id) is parent
            error = limits.failed_with(parent.id, parent.error if known else None, passed_on=bool(parent.culprits))
        else:
            words = limits.REMOVED_PARENT if how is None else limits.CANCELLED_PARENT
            error = limits.own_error(words.format(parent.id))
        self._fail(job, limits.DEPENDENCY, error)

    def _fail(self, job: Job, group: str, error: bytes) -> None:
        job.error, job.group = error, group
        self._finish(job, State.FAILED, self.clock.now())
        self._happened(job, "failed", group)
