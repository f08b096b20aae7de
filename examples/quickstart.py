"""The quickstart: enqueue a job, run it, get its result.

Run this file, or give a worker a terminal of its own:

    headrace worker examples/quickstart.py:app
    headrace enqueue send ada@example.org subject=Hello --wait --app examples/quickstart.py:app
"""

from headrace import Headrace

app = Headrace()  # $HEADRACE_STORE, or sqlite:///headrace.db


@app.task(queue="mail", retries=5, timeout="30s")
async def send(to: str, subject: str = "hi") -> int:
    print(f"to {to}: {subject}")
    return len(subject)


if __name__ == "__main__":
    with app.worker():  # for a script; in production it is `headrace worker`
        job = send.enqueue("ada@example.org", subject="Hello")
        print("characters sent:", job.result(timeout=10))
        later = send.using(run_after="in 1s", priority=10).enqueue("bob@example.org")
        print(f"the next one is {later.state}, and was done with {later.result(timeout=10)}")
