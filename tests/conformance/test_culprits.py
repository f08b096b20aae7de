"""Jobs that failed because of others that they came after: what their errors say, and when they come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headrace.records import IfFailed, Kind, State
from headrace.store import limits
from headrace.store.contract import Facet, Store
from headrace.values.clock import ManualClock
from headrace.values.codec import ErrorText, encode_error

from .helpers import Worker, exists, look, new, put, state, take_named, told, why
from .traits import Trait

pytestmark = pytest.mark.needs(Facet.RELATIONS)

BOOM = encode_error(ErrorText("shop.Boom", 'no "way" / out', "a long story\n" * 500))


@dataclass(frozen=True)
class Scene:
    """A store, and a worker that fails jobs in it."""

    store: Store
    worker: Worker

    def fail(self, job_id: str, error: bytes | None = BOOM) -> None:
        self.worker.settle(take_named(self.worker, job_id), Kind.FAILED, error=error)

    def revive(self, *job_ids: str) -> list[bool]:
        return self.store.run(self.store.revive(list(job_ids)))

    def states(self, job_ids: str) -> list[State]:
        return [state(self.store, job_id) for job_id in job_ids]


@pytest.fixture
def scene(store: Store, worker: Worker) -> Scene:
    return Scene(store, worker)


# -- what they say --


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_chain_names_the_culprit_and_its_error_to_the_end(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    put(scene.store, "c", after=("b",))
    scene.fail("a")
    put(scene.store, "d", after=("c",))
    words = 'It comes after job a, which failed: shop.Boom: no "way" / out'
    assert [why(scene.store, i) for i in "bcd"] == [(State.FAILED, "dependency", words)] * 3


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "."),
        (b"", "."),
        (b"no JSON", ": no JSON"),
        (b'{"type": 5, "message": "m"}', ': {"type": 5, "message": "m"}'),
        (encode_error(ErrorText("", "only words")), ": only words"),
        (encode_error(ErrorText("KeyError", "")), ": KeyError"),
        (encode_error(ErrorText("E", "\\/ \n \t \x01 ü 🎈")), ": E: \\/ \n \t \x01 ü 🎈"),
    ],
)
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_whatever_the_culprit_left_is_told(scene: Scene, error: bytes | None, words: str) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    scene.fail("a", error)
    assert why(scene.store, "b")[2] == f"It comes after job a, which failed{words}"


@pytest.mark.parametrize("letter", ["x", "ü", "€", "🎈"])
@pytest.mark.parametrize("shift", range(4))
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_long_error_is_cut_between_characters(scene: Scene, letter: str, shift: int) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    text = "." * shift + letter * (limits.CAUSE + 1)
    scene.fail("a", encode_error(ErrorText("", text)))
    kept = (limits.CAUSE - shift) // len(letter.encode())
    assert why(scene.store, "b")[2] == "It comes after job a, which failed: " + text[: shift + kept] + "…"


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_job_that_only_waits_by_depend_fails_too(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b")
    assert scene.store.run(scene.store.depend("b", ["a"]))  # type: ignore[attr-defined]
    scene.fail("a")
    assert why(scene.store, "b")[1] == "dependency"


# -- how they come back --


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_reviving_the_culprit_revives_what_failed_because_of_it(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    put(scene.store, "c", after=("b",))
    scene.fail("a")
    assert scene.revive("a") == [True]
    assert scene.states("abc") == [State.READY, State.BLOCKED, State.BLOCKED]
    c = look(scene.store, "c")
    assert (c.error, c.group, c.finished) == (None, None, None)
    assert told(scene.store, "c") == ["created", "failed", "revived"]
    assert [scene.worker.run_one().id for _ in "abc"] == ["a", "b", "c"]


def test_one_that_was_put_after_the_failure_comes_back_too(scene: Scene) -> None:
    put(scene.store, "a")
    scene.fail("a")
    put(scene.store, "b", after=("a",))
    scene.revive("a")
    assert scene.states("ab") == [State.READY, State.BLOCKED]
    scene.worker.run_one()
    assert scene.states("ab") == [State.DONE, State.READY]


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_cancelled_parent_is_a_culprit_like_any_other(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    scene.store.run(scene.store.cancel(["a"]))
    assert scene.states("ab") == [State.CANCELLED, State.FAILED]
    scene.revive("a")
    assert scene.states("ab") == [State.READY, State.BLOCKED]


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_again_and_again(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    put(scene.store, "c", after=("b",))
    for number in range(3):
        scene.fail("a", f"{number}".encode())
        assert scene.states("abc") == [State.FAILED] * 3
        assert why(scene.store, "c")[2] == f"It comes after job a, which failed: {number}"
        scene.revive("a")
        assert scene.states("abc") == [State.READY, State.BLOCKED, State.BLOCKED]
    assert [scene.worker.run_one().id for _ in "abc"] == ["a", "b", "c"]


@pytest.mark.parametrize("first", ["ab", "ba"])
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_one_with_two_culprits_comes_back_with_the_last_of_them(scene: Scene, first: str) -> None:
    put(scene.store, "a", "b")
    put(scene.store, "c", after=("a", "b"))
    scene.fail("a", b"1")
    scene.fail("b", b"2")
    scene.revive(first[0])
    assert why(scene.store, "c") == (State.FAILED, "dependency", "It comes after job a, which failed: 1")
    scene.revive(first[1])
    assert state(scene.store, "c") is State.BLOCKED
    scene.worker.run_one()
    assert state(scene.store, "c") is State.BLOCKED
    scene.worker.run_one()
    assert state(scene.store, "c") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_one_revived_by_hand_goes_its_own_way(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    scene.fail("a")
    assert scene.revive("b") == [True]
    scene.worker.settle(take_named(scene.worker, "b"), Kind.FAILED, group="own")
    scene.revive("a")
    assert (state(scene.store, "b"), look(scene.store, "b").group) == (State.FAILED, "own")


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_one_cancelled_meanwhile_stays_cancelled(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    scene.fail("a")
    scene.store.run(scene.store.cancel(["b"]))
    scene.revive("a")
    assert scene.states("ab") == [State.READY, State.CANCELLED]


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_revived_together_in_whatever_order_they_wait_for_each_other(scene: Scene, order: str) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",))
    scene.fail("a")
    assert scene.revive(*order, "a", "nobody") == [True, True, False, False]
    assert scene.states("ab") == [State.READY, State.BLOCKED]
    assert told(scene.store, "b").count("revived") == 1


@pytest.mark.needs(Facet.UNIQUE)
def test_one_whose_unique_key_is_taken_meanwhile_stays_failed(scene: Scene) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",), unique_key="k")
    scene.fail("a")
    put(scene.store, "other", unique_key="k")
    scene.revive("a")
    assert scene.states("ab") == [State.READY, State.FAILED]


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_its_delay_counts_from_when_the_parent_is_done_at_last(scene: Scene, clock: ManualClock) -> None:
    put(scene.store, "a")
    scene.fail("a")
    put(scene.store, "b", after=("a",), delay=1_000)
    put(scene.store, "c", after=("a",), run_at=clock.now() + 60_000)
    due = look(scene.store, "c").due
    scene.revive("a")
    clock.advance(5_000)
    scene.worker.run_one()
    assert scene.states("bc") == [State.SCHEDULED] * 2
    assert [look(scene.store, i).due for i in "bc"] == [clock.now() + 1_000, due]


@pytest.mark.parametrize("policy", [IfFailed.WAIT, IfFailed.RUN])
def test_only_what_fails_with_its_parents_comes_back_with_them(scene: Scene, policy: IfFailed) -> None:
    put(scene.store, "a")
    put(scene.store, "b", after=("a",), if_failed=policy)
    scene.fail("a")
    before = look(scene.store, "b")
    scene.revive("a")
    assert look(scene.store, "b") == before


# -- culprits that are gone --


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_a_deleted_culprit_leaves_its_dependents_failed(scene: Scene) -> None:
    put(scene.store, "a", "b")
    put(scene.store, "c", after=("a", "b"))
    scene.fail("a", b"1")
    scene.fail("b")
    scene.store.run(scene.store.delete(["a"]))
    scene.revive("b")
    assert why(scene.store, "c")[2] == "It comes after job a, which failed: 1"
    assert scene.revive("c") == [True]
    assert state(scene.store, "c") is State.BLOCKED, "by hand: it waits for b alone"


@pytest.mark.needs(Facet.RETENTION)
def test_a_purged_culprit_leaves_its_dependents_failed(make_store: Callable[..., Store], clock: ManualClock) -> None:
    store = make_store(clock, keep_failed=1_000)
    scene = Scene(store, Worker(store, clock))
    put(store, "a")
    scene.fail("a")
    clock.advance(500)
    put(store, "b", after=("a",))
    clock.advance(501)
    assert store.run(store.sweep()).jobs_purged == 1
    assert not exists(store, "a")
    assert state(store, "b") is State.FAILED
    assert scene.revive("b") == [True]
    assert state(store, "b") is State.READY


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_nothing_remains_of_culprits_and_their_dependents(
    scene: Scene, leftovers: Callable[[Store], dict[str, int]]
) -> None:
    put(scene.store, "a", "b")
    put(scene.store, "c", after=("a", "b"))
    put(scene.store, "d", after=("c",))
    for _ in range(2):
        scene.fail("a")
        scene.fail("b")
        scene.revive("a")
        scene.revive("b")
    scene.fail("a")
    scene.store.run(scene.store.delete(list("abcd")))
    assert leftovers(scene.store) == {}


# -- in bounded steps --


@pytest.mark.needs(Trait.DEPENDENCY_ENDS)
def test_many_come_back_in_bounded_steps(scene: Scene) -> None:
    put(scene.store, "a")
    names = [f"b{i}" for i in range(1_200)]
    scene.store.run(scene.store.put([new(name, after=("a",)) for name in names]))

    def count(wanted: State) -> int:
        return sum(job is not None and job.state is wanted for job in scene.store.run(scene.store.get(names)))

    scene.fail("a")
    assert count(State.FAILED) == limits.EDGES_IN_A_STEP
    scene.revive("a")
    assert count(State.FAILED) == 2 * limits.EDGES_IN_A_STEP, "the oldest note comes first"
    while scene.store.run(scene.store.sweep()).more:
        pass
    assert count(State.BLOCKED) == 1_200
    # Each that comes back is an edge, and looks up the one job that it comes after.
    scene.fail("a")
    while scene.store.run(scene.store.sweep()).more:
        pass
    scene.revive("a")
    assert count(State.BLOCKED) == limits.EDGES_IN_A_STEP // 2
    scene.fail("a", b"again")
    while scene.store.run(scene.store.sweep()).more:
        pass
    assert count(State.FAILED) == 1_200
    assert why(scene.store, names[-1])[2] == "It comes after job a, which failed: again"
    scene.revive("a")
    scene.worker.run_one()
    while scene.store.run(scene.store.sweep()).more:
        pass
    assert count(State.READY) == 1_200
