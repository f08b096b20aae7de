"""Recurring jobs: declared in code, stored at run time, and a whole day of them in the blink of an eye."""

from __future__ import annotations

from headrace import Headrace, current

app = Headrace(tz="Europe/Zurich")


@app.task
def report(kind: str) -> str:
    return f"{kind} of {current().tick:%H:%M} UTC"


@app.task
def count() -> int:
    seen = (current().data or 0) + 1  # what the run before has left
    current().replace(seen)
    return seen


# Declared: each worker that starts sees to it that the store has just these.
app.schedule("morning report", report.every("every weekday at 9:30", jitter="30s"), "sales")
app.schedule("counter", count.every("every 8 hours", carry_data=True))

if __name__ == "__main__":
    with app.testing(schedules=True) as t:
        # Stored at run time, by whoever has the idea, and changed while it is in use.
        stock = report.every("every hour", name="stock", overlap="skip", runs=3).enqueue("stock")
        stock.edit(every="every 2 hours")
        for _ in range(24):
            t.advance("1 hour")
            t.run_all()
        print("runs in a day:", {schedule.name: schedule.runs for schedule in app.schedules() if schedule.runs > 1})
        print("the counter counts:", [job.result() for job in t.jobs if job.task.endswith("count")][-1])
