"""The function `enqueue` of the schema: for triggers, psql and programs in other languages."""

from __future__ import annotations

import pytest

from app.callers import OnPostgres
from headrace import State
from headrace.options import OF_CALL
from headrace.records import SessionInfo

psycopg = pytest.importorskip("psycopg")


def test_a_trigger_enqueues(shop: OnPostgres) -> None:
    shop.outside(
        f"""
        CREATE OR REPLACE FUNCTION confirm_purchase() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM {shop.schema}.enqueue('confirm', jsonb_build_object('number', new.number));
            RETURN NULL;
        END $$;
        CREATE TRIGGER purchased AFTER INSERT ON public.purchase FOR EACH ROW EXECUTE FUNCTION confirm_purchase()
        """
    )
    try:
        shop.buy(7)
        assert shop.states() == []
        shop.commit()
        assert shop.results() == [7]
    finally:
        shop.outside("DROP TRIGGER purchased ON public.purchase")


def enqueue(shop: OnPostgres, options: str, args: str = '{"number": 1}') -> str:
    statement = f"SELECT {shop.schema}.enqueue('confirm', '{args}', '{options}')"
    return str(shop.outside(statement)[0][0])


def test_options_in_sql(shop: OnPostgres) -> None:
    parent = enqueue(shop, '{"priority": 3, "max_crashes": 1, "retries": 2, "timeout": 3.5, "headers": {"a": "b"}}')
    job = shop.app.job(parent)
    assert (job.snapshot.priority, job.snapshot.max_crashes, job.headers) == (3, 1, {"a": "b"})
    child = shop.app.job(enqueue(shop, f'{{"after": ["{parent}"], "tags": ["red"], "lane": "a", "limit": 2}}'))
    assert (child.state, child.tags) == (State.BLOCKED, ("red",))
    assert enqueue(shop, '{"unique_key": "k"}') == enqueue(shop, '{"unique_key": "k"}')
    assert shop.confirm.using(unique_key="k").enqueue(1).id == enqueue(shop, '{"unique_key": "k"}')
    assert shop.app.job(enqueue(shop, '{"run_after": 3600}')).state is State.SCHEDULED
    later = shop.app.job(enqueue(shop, '{"run_after": "2031-01-01T00:00:00Z", "queue": "mail", "sequence": "s"}'))
    assert (later.queue, later.run_after.year) == ("mail", 2031)
    assert shop.app.job(enqueue(shop, '{"test": true, "queue": "mail"}')).queue == "~mail"
    assert shop.app.job(enqueue(shop, '{"expires": 0.001}')).snapshot.expires is not None
    shop.app.worker().run_until_empty()
    assert child.refresh().state is State.DONE


def test_ids_in_sql(shop: OnPostgres) -> None:
    assert [enqueue(shop, '{"id": "order:7"}', f'{{"number": {number}}}') for number in (1, 2)] == ["order:7"] * 2
    shop.app.worker().run_until_empty()
    assert shop.app.job("order:7").result() == 1
    assert not shop.confirm.using(id="order:7").enqueue(3).created_now
    with pytest.raises(psycopg.errors.UniqueViolation, match="job order:7 is there already"):
        enqueue(shop, '{"id": "order:7", "on_clash": "error"}')


def test_a_rate_in_sql(shop: OnPostgres) -> None:
    jobs = [shop.app.job(enqueue(shop, '{"lane": "a", "rate": [1, 3600]}')) for _ in range(2)]
    shop.app.worker().run_until_empty()
    assert [job.refresh().state for job in jobs] == [State.DONE, State.SCHEDULED]


@pytest.mark.parametrize("queues", [("default",), ("mail.*", "def[a-f]ult?", "d?fault")])
def test_a_worker_that_is_required_in_sql(shop: OnPostgres, queues: tuple[str, ...]) -> None:
    refused = psycopg.errors.ObjectNotInPrerequisiteState
    with pytest.raises(refused, match="no live worker listens to queue default and knows task confirm"):
        enqueue(shop, '{"require_worker": true}')
    store = shop.app.store
    store.run(store.open(SessionInfo(id="w", name="w", timeout=60_000, queues=queues, tasks=("confirm",))))
    shop.app.job(enqueue(shop, '{"require_worker": true}'))
    with pytest.raises(refused, match="listens to queue mailing"):
        enqueue(shop, '{"require_worker": true, "queue": "mailing"}')
    store.run(store.close_session("w"))
    with pytest.raises(refused, match="no live worker"):
        enqueue(shop, '{"require_worker": true}')


def test_enqueue_in_sql_knows_every_option_of_a_call(shop: OnPostgres) -> None:
    with pytest.raises(psycopg.Error) as refused:
        enqueue(shop, '{"colour": "red"}')
    known = str(refused.value.diag.message_hint).removeprefix("It takes ").removesuffix(".").split(", ")
    assert set(OF_CALL) - set(known) == {"unique"}  # its key is made of the arguments as Python knows them


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("[]", "options is an object"),
        ('{"colour": "red"}', "does not know the option colour"),
        ('{"queue": "a*"}', "is not a value for queue"),
        ('{"queue": "~a"}', "is not a value for queue"),
        ('{"queue": ""}', "is not a value for queue"),
        ('{"priority": 2000000}', "is not a value for priority"),
        ('{"max_crashes": 0}', "is not a value for max_crashes"),
        ('{"timeout": 0}', "is not a value for timeout"),
        ('{"tags": "red"}', "is not a value for tags"),
        ('{"headers": {"a": 1}}', "is not a value for headers"),
        ('{"run_after": -1}', "is not a value for run_after"),
        ('{"on_clash": "replace"}', "on_clash needs unique_key"),
        ('{"on_clash": "replace", "id": "a"}', "on_clash needs unique_key"),
        ('{"on_clash": "error"}', "on_clash needs unique_key"),
        ('{"unique_for": 1}', "unique_for needs unique_key"),
        ('{"id": "a b"}', "is not a value for id"),
        ('{"if_failed": "run"}', "if_failed needs after"),
        ('{"after": ["01a1typo"]}', "after names a job that is not here"),
        ('{"lane": "k", "weight": 1001}', "1001 is not a value for weight"),
        ('{"limit": 1}', "limit, rate and weight need lane"),
        ('{"rate": [1, 1]}', "limit, rate and weight need lane"),
        ('{"lane": "a", "rate": "1/minute"}', "is not a value for rate"),
        ('{"lane": "a", "rate": [0, 60]}', "is not a value for rate"),
        ('{"lane": "a", "rate": [10001, 60]}', "is not a value for rate"),
        ('{"lane": "a", "rate": [1, 0]}', "is not a value for rate"),
        ('{"require_worker": 1}', "is not a value for require_worker"),
        ('{"sequence": "s", "lane": "a"}', "a sequence has no lane"),
    ],
)
def test_wrong_options_in_sql(shop: OnPostgres, options: str, words: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
        enqueue(shop, options)
    assert shop.states() == []


def test_wrong_arguments_in_sql(shop: OnPostgres) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="args is an object"):
        enqueue(shop, "{}", "[1]")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="task is a name"):
        shop.outside(f"SELECT {shop.schema}.enqueue(NULL)")
