"""What becomes of a job that fails: tried again by policy, told to wait, or given up with a reason."""

from headrace import Backoff, Fail, Headrace, JobFailed, Snooze, current

app = Headrace()


@app.task(retries=4, backoff=Backoff(first=0.05), fail_on=PermissionError)
def fetch(url: str) -> str:
    """An exception leads to another attempt, but not one of `fail_on`."""
    if "private" in url:
        raise PermissionError(f"{url} is not for us")
    if current().attempt < 3:
        raise ConnectionError(f"{url} does not answer")
    return f"{url} answered at attempt {current().attempt}"


@app.task
def ship(order: int) -> str:
    """A task may decide for itself: not now, or never."""
    if order < 0:
        raise Fail("no such order", f"order {order} does not exist")
    if current().data is None:
        raise Snooze(0.05, data="packed")  # spends no attempt; the data is there the next time
    return f"order {order} was {current().data} and has left"


if __name__ == "__main__":
    with app.worker():
        job = fetch.enqueue("https://example.org")
        print(job.result(timeout=10))
        for line in job.history:
            print(f"  {line.what:<8} {line.detail}")
        print(ship.enqueue(7).result(timeout=10))
        for failing in (fetch.enqueue("https://example.org/private"), ship.enqueue(-1)):
            try:
                failing.result(timeout=10)
            except JobFailed as error:
                print(f"failed in the group {error.group!r}: {error.message}")
