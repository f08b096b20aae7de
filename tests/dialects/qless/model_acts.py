"""The rest of the model: failing, retrying, cancelling, changing, looking."""

from __future__ import annotations

import math
from typing import Any

from .model import Model, Refused


class FullModel(Model):
    """All commands that random histories use."""

    def fail(self, now: float, jid: str, worker: str, group: str) -> str:
        job = self.held(jid, worker)
        self.log(jid=jid, event="failed", worker=worker, group=group, message="m")
        self.tell_trackers(jid, "ql:failed")
        self.zsets[f"ql:w:{worker}:jobs"].pop(jid, None)
        self.leave_queue(jid, job["queue"], "work", "locks", "scheduled")
        failure = {"group": group, "message": "m", "when": math.floor(now), "worker": worker}
        self.fall(now, jid, job["queue"], failure, {"worker": worker, "group": group})
        return jid

    def retry(self, now: float, jid: str, queue: str, worker: str, delay: float, reason: list[str]) -> int:
        job = self.held(jid, worker)
        old_queue = job["queue"]
        job["remaining"] -= 1
        job.pop("grace", None)
        job["queue"] = queue
        self.zsets["ql:queues"].setdefault(queue, now)
        self.leave_queue(jid, old_queue, "locks")
        self.zsets[f"ql:w:{worker}:jobs"].pop(jid, None)
        told = {"group": reason[0], "message": reason[1], "when": math.floor(now), "worker": worker} if reason else None
        if job["remaining"] >= 0:
            if told:
                job["failure"] = told
            self.line_up(now, jid, queue, delay, False)
        else:
            group = reason[0] if reason else f"failed-retries-{queue}"
            message = f'Job exhausted retries in queue "{old_queue}"'
            failure = told or {"group": group, "message": message, "when": now, "worker": ""}
            self.fall(now, jid, queue, failure, {"group": group})
            self.tell_trackers(jid, "ql:failed")
        return int(job["remaining"])

    def unfail(self, now: float, queue: str, group: str, count: int) -> int:
        listed = self.lists[f"ql:f:{group}"]
        oldest = listed[-count:]
        del listed[len(listed) - len(oldest) :]
        if not listed:
            self.sets["ql:failures"].discard(group)
        put_back = [jid for jid in reversed(oldest) if self.job(jid)]
        for jid in put_back:
            job = self.job(jid)
            if failure := job.get("failure"):
                self.count(failure["when"], job["queue"], "failed", -1)
            self.history(now, jid, "put", {"q": queue})
            job |= {"worker": "", "expires": 0, "queue": queue, "remaining": job["retries"]}
            self.line_up(now, jid, queue, 0, False)
        if put_back:
            self.zsets["ql:queues"].setdefault(queue, now)
        return len(put_back)

    def timeout(self, now: float, jid: str) -> None:
        job = self.job(jid)
        if not job:
            raise Refused("does not exist")
        if job["state"] != "running":
            raise Refused("not running")
        self.history(now, jid, "timed-out")
        self.leave_queue(jid, job["queue"], "locks")
        self.zsets[f"ql:w:{job['worker']}:jobs"].pop(jid, None)
        self.place(job["queue"], "work")[jid] = math.inf
        job |= {"state": "stalled", "expires": 0}
        self.tell(job["worker"], jid=jid, event="lock_lost", worker=job["worker"])

    def cancel(self, now: float, *jids: str) -> list[str]:
        for jid in jids:
            if self.sets[f"ql:j:{jid}-dependents"] - set(jids):
                raise Refused("is a dependency")
        for jid in jids:
            job = self.job(jid)
            if job.get("state") == "complete":
                continue
            worker, queue = job.get("worker", False), job.get("queue", False)
            self.log(jid=jid, event="canceled", worker=worker, queue=queue)
            if worker:
                self.zsets[f"ql:w:{worker}:jobs"].pop(jid, None)
                self.events.append((f"ql:w:{worker}", self.events[-1][1]))
            if queue:
                self.leave_queue(jid, queue, "work", "locks", "scheduled", "depends")
            self.undepend(jid, self.sets[f"ql:j:{jid}-dependencies"])
            if job.get("state") == "failed":
                self.unfailed(jid, job)
            self.unindex(jid, job.get("tags", {}))
            self.tell_trackers(jid, "ql:canceled")
            self.hashes.pop(f"ql:j:{jid}", None)
            self.lists.pop(f"ql:j:{jid}-history", None)
        return list(jids)

    def depends(self, now: float, jid: str, command: str, *jids: str) -> int:
        job = self.job(jid)
        if job.get("state") != "depends":
            raise Refused("in the depends state")
        if command == "on":
            self.depend(jid, self.unsatisfied(jid, list(jids)))
            return 1
        waits = self.sets[f"ql:j:{jid}-dependencies"]
        self.undepend(jid, waits if jids == ("all",) else jids)
        if not waits:
            self.unlock(now, jid)
        return 1

    def priority(self, now: float, jid: str, priority: int) -> int:
        job = self.job(jid)
        if not job:
            raise Refused("does not exist")
        job["priority"] = priority
        work = self.place(job["queue"], "work")
        if jid in work:
            work[jid] = priority
        return priority

    def tag(self, now: float, command: str, jid: str, *tags: str) -> Any:
        job = self.job(jid)
        if not job:
            raise Refused("does not exist")
        had = list(job["tags"])
        if command == "add":
            new = [tag for tag in dict.fromkeys(tags) if tag not in had]
            self.index(now, jid, new)
            job["tags"] = had + new or {}
        else:
            self.unindex(jid, [tag for tag in had if tag in tags])
            job["tags"] = [tag for tag in had if tag not in tags] or {}
        return job["tags"]

    def track(self, now: float, command: str, jid: str) -> str:
        if not self.job(jid):
            raise Refused("does not exist")
        tracked = self.zsets["ql:tracked"]
        was = jid in tracked
        self.events.append((f"ql:{command}", jid))
        if command == "track":
            tracked[jid] = now
            return "0" if was else "1"
        tracked.pop(jid, None)
        return "1" if was else "0"

    def recur(self, now: float, queue: str, jid: str, interval: float, offset: float, backlog: int, tags: Any) -> str:
        record = self.hashes[f"ql:r:{jid}"]
        if record:
            self.place(record["queue"], "recur").pop(jid, None)
        record |= {
            "jid": jid, "klass": "K", "data": "{}", "priority": 0, "tags": tags or {}, "state": "recur",
            "queue": queue, "type": "interval", "count": record.get("count", 0), "interval": interval, "retries": 2,
            "backlog": backlog,
        }  # fmt: skip
        self.place(queue, "recur")[jid] = now + offset
        self.zsets["ql:queues"].setdefault(queue, now)
        return jid

    def unrecur(self, now: float, jid: str) -> int:
        record = self.hashes.pop(f"ql:r:{jid}", None)
        if record:
            self.place(record["queue"], "recur").pop(jid, None)
        return 1

    def pause(self, now: float, queue: str) -> None:
        self.sets["ql:paused_queues"].add(queue)

    def unpause(self, now: float, queue: str) -> None:
        self.sets["ql:paused_queues"].discard(queue)

    def queues(self, now: float, queue: str) -> dict[str, Any]:
        self.promote(now, queue, math.inf)
        locks = self.place(queue, "locks").values()
        stalled = sum(score <= now for score in locks)
        sizes = {place: len(self.place(queue, place)) for place in ("work", "scheduled", "depends", "recur")}
        return {
            "name": queue, "waiting": sizes["work"], "stalled": stalled, "running": len(locks) - stalled,
            "scheduled": sizes["scheduled"], "depends": sizes["depends"], "recurring": sizes["recur"],
            "paused": queue in self.sets["ql:paused_queues"],
        }  # fmt: skip

    def length(self, now: float, queue: str) -> int:
        return sum(len(self.place(queue, place)) for place in ("locks", "work", "scheduled"))

    def failed(self, now: float) -> dict[str, int]:
        return {group: len(self.lists[f"ql:f:{group}"]) for group in self.sets["ql:failures"]}

    def workers(self, now: float, worker: str) -> dict[str, Any]:
        jobs = sorted(((score, jid) for jid, score in self.zsets[f"ql:w:{worker}:jobs"].items()), reverse=True)
        return {
            "jobs": [jid for score, jid in jobs if score >= now] or {},
            "stalled": [jid for score, jid in jobs if score <= now] or {},
        }
