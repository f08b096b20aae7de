"""How to test code that enqueues jobs, and the jobs themselves: no worker, no waiting. Run with pytest."""

import pytest

from headrace import Backoff, Headrace

app = Headrace()
outbox: list[str] = []


@app.task(queue="mail", retries=1, backoff=Backoff(first=60, jitter=0))
def send(to: str, subject: str) -> None:
    if to.endswith(".invalid"):
        raise ConnectionError(f"no route to {to}")
    outbox.append(f"{to}: {subject}")


@app.task
def sign_up(name: str) -> None:
    send.enqueue(f"{name}@example.org", "Welcome")
    send.using(run_after="2 days").enqueue(f"{name}@example.org", "How is it going?")


def test_signing_up_sends_two_mails() -> None:
    outbox.clear()
    with app.testing() as t:
        sign_up.enqueue("ada")
        t.run_all()  # sign_up, and the mail that it enqueued
        assert outbox == ["ada@example.org: Welcome"]
        later = t.assert_enqueued(send, subject="How is it going?")
        assert later.queue == "mail"
        t.advance("2 days")
        assert t.run_all() == 1
        assert outbox[1] == "ada@example.org: How is it going?"


def test_a_mail_is_tried_twice() -> None:
    with app.testing() as t:
        job = send.enqueue("ada@nowhere.invalid", "hi")
        t.run_all()  # the first attempt; its exception leads to a retry and is not raised here
        t.advance("1 minute")
        with pytest.raises(ConnectionError, match=r"nowhere\.invalid"):
            t.run_all()
        assert job.refresh().attempts == 2
