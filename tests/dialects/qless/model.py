"""The specification as plain Python, for what random histories do. Keys are dictionaries, sets and lists."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

DAY = 86400
AGE = 10**10


class Refused(Exception):
    """The command must be refused with text that has this in it."""


class Model:
    """Everything a server would hold, and `events`: what the last command published."""

    def __init__(self) -> None:
        self.zsets: dict[str, dict[str, float]] = defaultdict(dict)
        self.sets: dict[str, set[str]] = defaultdict(set)
        self.lists: dict[str, list[Any]] = defaultdict(list)
        self.hashes: dict[str, dict[str, Any]] = defaultdict(dict)
        self.events: list[tuple[str, Any]] = []
        self.grace = 10.0

    def contents(self) -> dict[str, Any]:
        stores: tuple[dict[str, Any], ...] = (self.zsets, self.sets, self.lists, self.hashes)
        return {key: value for store in stores for key, value in store.items() if value}

    def call(self, command: str, now: float, *arguments: Any) -> Any:
        self.events = []
        act: Callable[..., Any] = getattr(self, command.replace(".", "_"))
        return act(now, *arguments)

    # -- small parts --

    def job(self, jid: str) -> dict[str, Any]:
        return self.hashes.get(f"ql:j:{jid}") or {}

    def place(self, queue: str, place: str) -> dict[str, float]:
        return self.zsets[f"ql:q:{queue}-{place}"]

    def log(self, **message: Any) -> None:
        self.events.append(("ql:log", message))

    def tell(self, worker: str, /, **message: Any) -> None:
        self.events += [(f"ql:w:{worker}", message), ("ql:log", message)]

    def tell_trackers(self, jid: str, channel: str) -> None:
        if jid in self.zsets["ql:tracked"]:
            self.events.append((channel, jid))

    def history(self, now: float, jid: str, *entry: Any) -> None:
        self.lists[f"ql:j:{jid}-history"].append([math.floor(now), *entry])

    def count(self, when: float, queue: str, counter: str, change: int) -> None:
        stats = self.hashes[f"ql:s:stats:{int(when - when % DAY)}:{queue}"]
        stats[counter] = stats.get(counter, 0) + change

    def sample(self, now: float, kind: str, queue: str, value: float) -> None:
        stats = self.hashes[f"ql:s:{kind}:{int(now - now % DAY)}:{queue}"]
        total = stats.get("total", 0) + 1
        before = stats.get("mean", 0.0)
        mean = value if total == 1 else before + (value - before) / total
        squares = 0 if total == 1 else stats["vk"] + (value - mean) * (value - before)
        stats |= {"total": total, "mean": mean, "vk": squares}
        seconds = math.floor(value)
        for letter, unit, limit in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, DAY), ("d", DAY, math.inf)):
            if seconds < limit:
                bucket = f"{letter}{seconds // unit}"
                stats[bucket] = stats.get(bucket, 0) + 1
                return

    def index(self, now: float, jid: str, tags: Any) -> None:
        for tag in tags:
            self.zsets[f"ql:t:{tag}"][jid] = now
            self.zsets["ql:tags"][tag] = self.zsets["ql:tags"].get(tag, 0) + 1

    def unindex(self, jid: str, tags: Any) -> None:
        for tag in tags:
            self.zsets[f"ql:t:{tag}"].pop(jid, None)
            self.zsets["ql:tags"][tag] -= 1

    def leave_queue(self, jid: str, queue: str, *places: str) -> None:
        for place in places:
            self.place(queue, place).pop(jid, None)

    def held(self, jid: str, worker: str) -> dict[str, Any]:
        job = self.job(jid)
        if not job:
            raise Refused("does not exist")
        if job["state"] != "running":
            raise Refused(f"not currently running: {job['state']}")
        if job["worker"] != worker:
            raise Refused("another worker")
        return job

    def unsatisfied(self, jid: str, jids: list[str]) -> list[str]:
        return [other for other in jids if other != jid and self.job(other).get("state", "complete") != "complete"]

    def depend(self, jid: str, jids: list[str]) -> None:
        for other in jids:
            self.sets[f"ql:j:{jid}-dependencies"].add(other)
            self.sets[f"ql:j:{other}-dependents"].add(jid)

    def undepend(self, jid: str, jids: Any) -> None:
        for other in list(jids):
            self.sets[f"ql:j:{jid}-dependencies"].discard(other)
            self.sets[f"ql:j:{other}-dependents"].discard(jid)

    def line_up(self, now: float, jid: str, queue: str, delay: float, blocked: bool) -> str:
        job = self.job(jid)
        if blocked:
            self.place(queue, "depends")[jid] = now
            if delay > 0:
                job["scheduled"] = now + delay
            state = "depends"
        elif delay > 0:
            self.place(queue, "scheduled")[jid] = now + delay
            state = "scheduled"
        else:
            self.place(queue, "work")[jid] = job["priority"] - now / AGE
            state = "waiting"
        job["state"] = state
        return state

    def unfailed(self, jid: str, job: dict[str, Any]) -> None:
        failure = job["failure"]
        group = self.lists[f"ql:f:{failure['group']}"]
        if jid in group:  # not if it was put back, and an occurrence overwrote it
            group.remove(jid)
        if not group:
            self.sets["ql:failures"].discard(failure["group"])
        self.count(failure["when"], job["queue"], "failed", -1)

    # -- commands --

    def put(self, now: float, worker: str, queue: str, jid: str, data: str, delay: float, **options: Any) -> str:
        job = self.hashes[f"ql:j:{jid}"]
        old = dict(job)
        depends = options.get("depends") or []
        waits_for = self.unsatisfied(jid, depends)
        self.log(jid=jid, event="put", queue=queue)
        self.history(now, jid, "put", {"q": queue})
        if old:
            if old["queue"]:
                self.leave_queue(jid, old["queue"], "work", "locks", "depends", "scheduled")
            if old["worker"]:
                self.zsets[f"ql:w:{old['worker']}:jobs"].pop(jid, None)
                if old["worker"] != worker:
                    self.tell(old["worker"], jid=jid, event="lock_lost", worker=old["worker"])
            if old["state"] == "complete":
                del self.zsets["ql:completed"][jid]
            if old["state"] == "failed":
                self.unfailed(jid, old)
            self.unindex(jid, old["tags"])
            if depends:
                self.undepend(jid, self.sets[f"ql:j:{jid}-dependencies"] - set(depends))
            job.pop("grace", None)
            job.pop("scheduled", None)
        retries = options.get("retries", old.get("retries", 5))
        tags = options.get("tags", old.get("tags", {})) or {}
        job |= {
            "jid": jid, "klass": "K", "data": data, "priority": options.get("priority", old.get("priority", 0)),
            "tags": tags, "worker": "", "expires": 0, "queue": queue, "retries": retries, "remaining": retries,
            "time": now,
        }  # fmt: skip
        self.index(now, jid, tags)
        self.depend(jid, waits_for)
        self.line_up(now, jid, queue, delay, bool(self.sets[f"ql:j:{jid}-dependencies"]))
        self.zsets["ql:queues"].setdefault(queue, now)
        self.tell_trackers(jid, "ql:put")
        return jid

    def expire(self, now: float, queue: str, count: int) -> list[str]:
        free = []
        ended = sorted((score, jid) for jid, score in self.place(queue, "locks").items() if score <= now)
        for _, jid in ended[:count]:
            job = self.job(jid)
            worker = job["worker"]
            self.zsets[f"ql:w:{worker}:jobs"].pop(jid, None)
            warned = self.grace > 0 and job.get("grace") == 1
            if not warned:
                self.tell_trackers(jid, "ql:stalled")
                self.history(now, jid, "timed-out")
                job["grace"] = 1
                self.tell(worker, jid=jid, event="lock_lost", worker=worker)
                self.place(queue, "locks")[jid] = now + self.grace
                self.count(now, queue, "retries", 1)
            if warned or self.grace <= 0:
                del job["grace"]
                job["remaining"] -= 1
                if job["remaining"] >= 0:
                    free.append(jid)
                else:
                    self.exhaust(now, jid, queue)
        return free

    def exhaust(self, now: float, jid: str, queue: str) -> None:
        job = self.job(jid)
        self.leave_queue(jid, queue, "work", "locks", "scheduled")
        # An occurrence that overwrote it may have put it into another queue than the one that it is locked in.
        group, message = f"failed-retries-{job['queue']}", f'Job exhausted retries in queue "{job["queue"]}"'
        worker = job["worker"]
        self.fall(now, jid, queue, {"group": group, "message": message, "when": now, "worker": ""}, {"group": group})
        self.tell_trackers(jid, "ql:failed")
        self.log(jid=jid, event="failed", group=group, worker=worker, message=message)

    def fall(self, now: float, jid: str, queue: str, failure: dict[str, Any], noted: dict[str, Any]) -> None:
        job = self.job(jid)
        self.history(now, jid, "failed", noted)
        job |= {"state": "failed", "worker": "", "expires": "", "failure": failure}
        job.pop("grace", None)
        self.sets["ql:failures"].add(failure["group"])
        self.lists[f"ql:f:{failure['group']}"].insert(0, jid)
        self.count(now, queue, "failures", 1)
        self.count(now, queue, "failed", 1)

    def replenish(self, now: float, queue: str, count: int) -> None:
        spawned = 0
        recur = self.place(queue, "recur")
        for score, jid in sorted((score, jid) for jid, score in recur.items() if 0 <= score <= now)[: max(count, 0)]:
            record, due = self.hashes[f"ql:r:{jid}"], math.floor(score)
            missed = (now - due) / record["interval"]
            if record["backlog"] and missed > record["backlog"]:
                due += math.ceil(missed - record["backlog"]) * record["interval"]
            while due <= now and spawned < count:
                record["count"] += 1
                self.occur(now, f"{jid}-{record['count']:.0f}", record, due)
                due += record["interval"]
                recur[jid] = due
                spawned += 1
        self.promote(now, queue, count)

    def occur(self, now: float, jid: str, record: dict[str, Any], due: float) -> None:
        names = ("klass", "data", "priority", "tags", "queue", "retries")
        self.hashes[f"ql:j:{jid}"] |= {name: record[name] for name in names} | {
            "jid": jid, "state": "waiting", "worker": "", "expires": 0, "remaining": record["retries"], "time": due,
            "spawned_from_jid": record["jid"],
        }  # fmt: skip
        self.index(now, jid, record["tags"])
        self.history(due, jid, "put", {"q": record["queue"]})
        self.place(record["queue"], "work")[jid] = record["priority"] - due / AGE

    def promote(self, now: float, queue: str, count: float) -> None:
        scheduled = self.place(queue, "scheduled")
        due = sorted((score, jid) for jid, score in scheduled.items() if 0 <= score <= now)
        for _, jid in due[: int(min(max(count, 0), len(due)))]:
            del scheduled[jid]
            self.line_up(now, jid, queue, 0, False)

    def line(self, queue: str, count: int, but: list[str]) -> list[str]:
        waiting = self.place(queue, "work").items()
        ranked = sorted(((score, jid) for jid, score in waiting if jid not in but), reverse=True)
        return [jid for _, jid in ranked[: max(count, 0)]]

    def pop(self, now: float, queue: str, worker: str, count: int) -> list[str]:
        if queue in self.sets["ql:paused_queues"]:
            return []
        self.zsets["ql:workers"][worker] = now
        jids = self.expire(now, queue, count)
        self.replenish(now, queue, count - len(jids))
        jids += self.line(queue, count - len(jids), jids)
        for jid in jids:
            job = self.job(jid)
            self.history(now, jid, "popped", {"worker": worker})
            self.sample(now, "wait", queue, now - job["time"])
            job |= {"time": now, "worker": worker, "expires": now + 60, "state": "running"}
            self.zsets[f"ql:w:{worker}:jobs"][jid] = self.place(queue, "locks")[jid] = now + 60
            self.tell_trackers(jid, "ql:popped")
            self.place(queue, "work").pop(jid, None)
        return jids

    def peek(self, now: float, queue: str, count: int) -> list[str]:
        ended = sorted((score, jid) for jid, score in self.place(queue, "locks").items() if score <= now)[:count]
        jids = [jid for _, jid in ended]
        self.replenish(now, queue, count - len(jids))
        return jids + self.line(queue, count - len(jids), jids)

    def heartbeat(self, now: float, jid: str, worker: str) -> int:
        job = self.held(jid, worker)
        job |= {"expires": now + 60}
        job.pop("grace", None)
        self.zsets[f"ql:w:{worker}:jobs"][jid] = self.place(job["queue"], "locks")[jid] = now + 60
        self.zsets["ql:workers"][worker] = now
        return int(now + 60)

    def complete(self, now: float, jid: str, worker: str, queue: str, data: str, **options: Any) -> str:
        job = self.held(jid, worker)
        if job["queue"] != queue:
            raise Refused("another queue")
        to = options.get("next")
        self.history(now, jid, "done")
        self.leave_queue(jid, queue, "work", "locks", "scheduled")
        self.sample(now, "run", queue, now - job["time"])
        self.zsets[f"ql:w:{worker}:jobs"].pop(jid, None)
        job.pop("grace", None)
        job |= {
            "data": data, "time": now, "worker": "", "failure": {}, "expires": 0, "remaining": job["retries"],
            "queue": to or "",
        }  # fmt: skip
        self.tell_trackers(jid, "ql:completed")
        if to:
            self.log(jid=jid, event="advanced", queue=queue, to=to)
            self.history(now, jid, "put", {"q": to})
            self.zsets["ql:queues"].setdefault(to, now)
            waits_for = self.unsatisfied(jid, options.get("depends", []))
            self.depend(jid, waits_for)
            return self.line_up(now, jid, to, options.get("delay", 0), bool(waits_for))
        self.log(jid=jid, event="completed", queue=queue)
        job["state"] = "complete"
        self.zsets["ql:completed"][jid] = now
        for other in self.sets.pop(f"ql:j:{jid}-dependents", set()):
            waits = self.sets[f"ql:j:{other}-dependencies"]
            waits.discard(jid)
            if not waits:
                self.unlock(now, other)
        return "complete"

    def unlock(self, now: float, jid: str) -> None:
        job = self.job(jid)
        self.leave_queue(jid, job["queue"], "depends")
        if "scheduled" in job:
            self.place(job["queue"], "scheduled")[jid] = job.pop("scheduled")
            job["state"] = "scheduled"
        else:
            self.line_up(now, jid, job["queue"], 0, False)
