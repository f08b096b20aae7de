"""Types from outside: paths, models of pydantic, and types with a codec of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import msgspec
import pytest
from click.testing import CliRunner
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
    field_validator,
)

from headrace import Headrace, State, current, shared_task
from headrace.cli import cli
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.values.codec import decode_error
from processes import environment

from .sent import arrived

T = TypeVar("T")


class Size(Enum):
    S = "s"
    L = "l"


class Item(BaseModel):
    sku: str
    price: Decimal
    size: Size = Size.S


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool


class Order(BaseModel):
    number: UUID = Field(default_factory=uuid4)
    placed: datetime
    items: list[Item]
    by_day: dict[date, Item] = {}
    tags: frozenset[str] = frozenset()
    note: str | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    within: timedelta = timedelta(hours=1)
    home: HttpUrl | None = None
    pair: tuple[int, str] = (1, "a")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> Decimal:
        return sum((item.price for item in self.items), Decimal(0))


class Aliased(BaseModel):
    """Written under other names than it is read by."""

    name: str = Field(validation_alias=AliasChoices("userName", "user_name"), serialization_alias="USER")
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")
    day: date
    pair: tuple[int, int]


class Moment(BaseModel):
    at: datetime


class Tidy(BaseModel):
    mail: str

    @field_validator("mail")
    @classmethod
    def lower(cls, text: str) -> str:
        return text.strip().lower()


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Page(BaseModel, Generic[T]):
    rows: list[T]


class Numbers(RootModel[list[int]]): ...


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@dataclass
class Parcel:
    item: Item
    into: Path = Path("/tmp")
    also: list[Item] = field(default_factory=list)


class Crate(msgspec.Struct):
    items: dict[str, Item]


ITEM = Item(sku="a", price=Decimal("1.10"), size=Size.L)
ORDER = Order(
    placed=datetime(2020, 2, 29, tzinfo=UTC),
    items=[ITEM, Item(sku="b", price=Decimal(2))],
    by_day={date(2020, 2, 29): ITEM},
    tags=frozenset("xyz"),
    pet=Dog(good=True),
    home=HttpUrl("https://example.org/a"),
)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Path, Path("/var/lib/a b.txt")),
        (Path, Path()),
        (PurePath, PurePath("a/b")),
        (PurePosixPath, PurePosixPath("a/b")),
        (Path | None, Path("a")),
        (Path | None, None),
        (list[Path], [Path("a"), Path("b")]),
        (dict[Path, int], {Path("a"): 1}),
        (Item, ITEM),
        (Order, ORDER),
        (Item | None, None),
        (Item | None, ITEM),
        (list[Item], [ITEM, ITEM]),
        (dict[str, Item | None] | None, {"a": ITEM, "b": None}),
        (tuple[Item, Path], (ITEM, Path("a"))),
        (Aliased, Aliased.model_validate({"userName": "ada", "b": 1, "a": 2})),
        (Strict, Strict(day=date(2020, 2, 29), pair=(1, 2))),
        (set[Strict], {Strict(day=date(2020, 2, 29), pair=(1, 2))}),
        (Tidy, Tidy(mail=" ADA@example.org ")),
        (Open, Open(colour="red", n=[1, {"a": None}])),  # type: ignore[call-arg]
        (Page[Item], Page[Item](rows=[ITEM])),
        (Numbers, Numbers([1, 2])),
        (Tree, Tree(name="a", children=[Tree(name="b", children=[Tree(name="c")])])),
        (Parcel, Parcel(ITEM, Path("/srv"), [ITEM])),
        (Crate, Crate({"a": ITEM})),
    ],
)
def test_values_arrive_equal_and_of_their_types(app: Headrace, annotation: Any, value: Any) -> None:
    found = arrived(app, annotation, value)
    assert (found, type(found)) == (value, type(value))

    def give() -> Any:
        return value

    give.__annotations__ = {"return": annotation}
    job = app.task(name="give")(give).enqueue()
    app.worker(slots=1).run_until_empty()
    assert job.refresh().state is State.DONE, job.snapshot.error
    assert (job.result(), type(job.result())) == (value, type(value))


def test_a_time_in_the_hour_that_a_clock_runs_twice_arrives_in_a_model(app: Headrace) -> None:
    """It is not equal to itself in another zone."""
    moment = Moment(at=datetime(2025, 10, 26, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Zurich")))
    assert arrived(app, Moment, moment).at.astimezone(UTC) == moment.at.astimezone(UTC)


def test_a_model_travels_with_all_its_fields_by_name(app: Headrace) -> None:
    @app.task(name="take")
    def take(who: Aliased, order: Order) -> None: ...

    new = take.call(Aliased.model_validate({"userName": "ada", "b": 1, "a": 2}), ORDER).new
    body = msgspec.json.decode(new.body)
    assert body["who"] == {"name": "ada", "a": 1, "b": 2}
    assert body["order"].keys() == Order.model_fields.keys()


class Secretive(BaseModel):
    key: SecretStr


class Lossy(BaseModel):
    text: str
    cached: str = Field("", exclude=True)


class Private(BaseModel):
    n: int = 0
    _seen: int = PrivateAttr(0)


class Counting(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def one_more(cls, n: int) -> int:
        return n + 1


class Loose(BaseModel):
    what: Any = None


class Special(Item):
    extra: int = 0


class Wrong(BaseModel):
    n: int = 0

    @field_validator("n")
    @classmethod
    def sum_up(cls, n: int) -> int:
        return {0: 0}[n]


class Raw(BaseModel):
    number: complex = 0j
    data: bytes = b""


DEEP = Tree(name="leaf")
for _ in range(3_000):
    DEEP = Tree.model_construct(name="branch", children=[DEEP])


def _seen(private: Private) -> Private:
    private._seen = 5
    return private


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (
            Item,
            Item.model_construct(sku=5),
            r"fit its annotation: Item: sku: .*; price: .*`\$\.value`",
        ),
        (Item, {"sku": "a", "price": "1"}, "Expected `Item`, got `dict`"),
        (Item, Special(sku="a", price=Decimal(1)), "Expected `Item`, got `Special`"),
        (
            list[Item],
            [ITEM, Special(sku="a", price=Decimal(1))],
            r"got `Special` - at `\$\.value\[1\]`",
        ),
        (Secretive, Secretive(key=SecretStr("k3y")), "argument 'value.key' cannot be carried exactly"),
        (Lossy, Lossy(text="a", cached="b"), "argument 'value.cached' cannot be carried exactly"),
        (Private, _seen(Private()), "argument 'value' has private attributes, which would not arrive"),
        (Counting, Counting(n=1), "argument 'value.n' cannot be carried exactly"),
        (Wrong, Wrong.model_construct(n=1), "Wrong raised KeyError: 1"),
        (Loose, Loose(what=(1, Path("a"))), r"Expected `str`, got `PosixPath` - at `\$\.value\.what\[1\]`"),
        (Loose, Loose(what=ITEM), "Expected `dict`, got `Item` - at "),
        (Loose, Loose(what=float("nan")), "Expected `NoneType`, got `float` - at "),
        (Loose, Loose(what=[(1, 2)]), r"argument 'value.what' cannot be carried exactly: \[\(1, 2\)\] would arrive as"),
        (Loose, Loose(what=1j), "Expected `str`, got `complex` - at "),
        (Raw, Raw(data=b"\xff"), "argument 'value' cannot be encoded: .*utf-8"),
        (list[Raw], [Raw(), Raw(data=b"\xff")], r"argument 'value\[1\]' cannot be encoded: .*utf-8"),
        (Tree, DEEP, "argument 'value' cannot be encoded"),
        (Any, ITEM, "argument 'value' is of type Item, which would arrive as something else"),
        (Any, Path("a"), "which would arrive as something else"),
        (str, Path("a"), "Expected `str`, got `PosixPath`"),
        (Path, "a", "Expected `PosixPath`, got `str`"),
        (Path, Path(os.fsdecode(b"\xff")), "argument 'value' cannot be encoded"),
    ],
)
def test_values_that_would_arrive_as_something_else_are_refused(
    app: Headrace, annotation: Any, value: Any, words: str
) -> None:
    with pytest.raises(ArgumentsError, match=words) as raised:
        arrived(app, annotation, value)
    assert "k3y" not in str(raised.value)
    assert not list(app.jobs())


class Hidden(BaseModel):
    password: str = Field(exclude=True)


class Live(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    process: subprocess.Popen[bytes]


class Calling(BaseModel):
    then: Callable[[], None]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Hidden, r"type Hidden, whose field 'password' is left out of its JSON \(exclude=True\)"),
        (list[Hidden], "type Hidden, whose field 'password'"),
        (Live, "type Live, whose field 'process' JSON cannot carry"),
        (Calling, "type Calling, whose field 'then' JSON cannot carry"),
        (dict[Strict, int], "type Strict as keys, and the keys of JSON are text"),
        (HttpUrl, r"type HttpUrl, which JSON cannot carry.* or write app\.codec\(\.\.\.\) for yours above the task"),
        (Cat | Dog, "JSON does not tell of which of these types a value is"),
        (Cat | str, "JSON does not tell of which of these types a value is"),
    ],
)
def test_types_that_cannot_arrive_are_refused_at_decoration(app: Headrace, annotation: Any, words: str) -> None:
    def take(value: Any) -> None: ...

    def give() -> Any: ...

    take.__annotations__ = {"value": annotation}
    give.__annotations__ = {"return": annotation}
    with pytest.raises(ConfigurationError, match=words):
        app.task(take)
    with pytest.raises(ConfigurationError, match=words):
        app.task(give)


def test_an_older_pydantic_is_refused_at_decoration(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydantic.VERSION", "2.10.6")

    def take(value: Item) -> None: ...

    with pytest.raises(ConfigurationError, match=r"a model of pydantic 2\.10\.6: it takes pydantic 2\.11 or newer"):
        app.task(take)


def test_pydantic_is_not_imported_by_headrace() -> None:
    program = (
        "import sys; from pathlib import Path; from headrace import Headrace\n"
        "app = Headrace('sqlite:///:memory:')\n"
        "@app.task\n"
        "def take(path: Path) -> Path: return path\n"
        "job = take.enqueue(Path('a')); app.worker().run_until_empty(); assert job.result() == Path('a')\n"
        "assert not [name for name in sys.modules if name.startswith('pydantic')]\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment(), check=True, timeout=60)


def test_a_body_that_does_not_fit_a_model_breaks_its_job_in_words(app: Headrace) -> None:
    @app.task(name="take")
    def take(order: Item) -> None: ...

    new = take.call(ITEM).new
    app.store.run(app.store.put([msgspec.structs.replace(new, body=b'{"order":{"sku":"a\\nb"}}')]))
    app.worker().run_until_empty()
    error = decode_error(app.job(new.id).snapshot.error)
    assert error.message == "the arguments do not fit take: Item: price: Field required - at `$.order`"


class Money:
    """A type of a user's own."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.cents == self.cents  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.cents)

    def text(self) -> str:
        return f"{self.cents / 100:.2f} EUR"

    @classmethod
    def parse(cls, text: str) -> Money:
        return cls(round(float(text.removesuffix(" EUR")) * 100))


class Tip(Money): ...


class Sku(str): ...


def with_money(app: Headrace) -> Headrace:
    app.codec(Money, encode=lambda money: money.text(), decode=Money.parse)
    return app


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Money, Money(150)),
        (Money | None, Money(150)),
        (list[Money], [Money(1), Money(2)]),
        (dict[Money, Money], {Money(1): Money(2)}),
    ],
)
def test_values_of_a_type_with_a_codec_arrive(app: Headrace, annotation: Any, value: Any) -> None:
    assert arrived(with_money(app), annotation, value) == value


def test_a_codec_may_carry_a_kind_of_text_and_replace_what_is_built_in(app: Headrace) -> None:
    app.codec(Sku, encode=str, decode=Sku)
    app.codec(
        Item, encode=lambda item: [item.sku, str(item.price)], decode=lambda parts: Item(sku=parts[0], price=parts[1])
    )
    found = arrived(app, Sku, Sku("a"))
    assert (found, type(found)) == ("a", Sku)
    plain = Item(sku="a", price=Decimal(1))
    assert arrived(app, Item, plain) == plain
    assert [job.snapshot.body for job in app.jobs()] == [b'{"value":["a","1"]}', b'{"value":"a"}']


def test_a_codec_is_for_exactly_its_type(app: Headrace) -> None:
    def take(value: Money) -> None: ...

    task = with_money(app).task(name="take")(take)
    with pytest.raises(ArgumentsError, match="argument 'value' cannot be encoded: Encoding objects of type Tip is"):
        task.enqueue(Tip(5))
    take.__annotations__["value"] = Tip
    with pytest.raises(ConfigurationError, match="'value' has values of type Tip, which JSON cannot carry"):
        app.task(name="tip")(take)


def test_a_codec_that_comes_after_a_task_is_used_by_it(app: Headrace) -> None:
    """A task that always needs the type was refused when it was decorated; this one can do without."""

    @app.task
    def pay(amount: Money | None = None) -> Money | None:
        return amount

    with_money(app)
    job = pay.enqueue(Money(150))
    app.worker().run_until_empty()
    assert job.result() == Money(150)


def test_a_shared_task_is_checked_with_the_codecs_of_each_app_that_includes_it(app: Headrace) -> None:
    @shared_task(name="shared pay")
    def pay(amount: Money) -> Money:
        return amount

    app.include(__name__)
    with pytest.raises(ConfigurationError, match="shared pay: 'amount' has values of type Money, which JSON cannot"):
        app.worker().run_until_empty()
    with closing(Headrace("sqlite:///:memory:")) as other:
        other.include(__name__)
        with_money(other)
        job = pay.of(other).enqueue(Money(150))
        other.worker().run_until_empty()
        assert job.result() == Money(150)


def _broken(_: Any) -> Any:
    raise KeyError("rate")


@pytest.mark.parametrize(
    ("encode", "decode", "words"),
    [
        (_broken, Money, "argument 'amount' cannot be encoded: the codec of Money raised KeyError: 'rate'"),
        (lambda money: money.cents, _broken, r"the codec of Money raised KeyError: 'rate' - at `\$\.amount`"),
        (lambda money: money.cents, lambda cents: cents, r"Expected `Money`, got `int` - at `\$\.amount`"),
        (lambda money: money.cents, lambda _: Money(0), "argument 'amount' cannot be carried exactly"),
        (lambda money: money, Money, "argument 'amount' is nested too deeply, or contains itself"),
        (lambda _: object(), Money, "argument 'amount' cannot be encoded: Encoding objects of type object is unsupp"),
    ],
)
def test_the_errors_of_a_codec_name_the_parameter(app: Headrace, encode: Any, decode: Any, words: str) -> None:
    app.codec(Money, encode, decode)

    def pay(amount: Any) -> None: ...

    pay.__annotations__ = {"amount": Money}
    with pytest.raises(ArgumentsError, match=words):
        app.task(pay).enqueue(Money(5))


def test_a_result_that_a_codec_cannot_carry_fails_its_job(app: Headrace) -> None:
    app.codec(Money, encode=_broken, decode=Money)

    def pay() -> Any:
        return Money(5)

    pay.__annotations__ = {"return": Money}
    job = app.task(pay).enqueue()
    app.worker().run_until_empty()
    assert job.snapshot.group == "result"
    words = "its result cannot be encoded: the codec of Money raised KeyError: 'rate'"
    assert words in decode_error(job.snapshot.error).message


class NoEquality: ...


@dataclass
class Point:
    x: int


class Names(list[str]): ...


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((Money, str, Money), "There is a codec of Money already"),
        (("Money", str, Money), "'Money' is not a class"),
        ((Tip, str, None), r"app\.codec\(Tip, \.\.\.\) takes two functions"),
        ((NoEquality, str, NoEquality), "NoEquality does not define =="),
        ((Point, str, Point), "Point needs no codec, and would not use one"),
        ((Names, str, Names), "Names needs no codec"),
        ((datetime, str, datetime.fromisoformat), "datetime needs no codec"),
        ((object, str, str), "object needs no codec"),
    ],
)
def test_a_codec_that_would_not_work_is_refused(app: Headrace, given: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        with_money(app).codec(*given)


def test_data_and_schedules_and_defaults_follow_the_same_rules(app: Headrace) -> None:
    with_money(app)
    seen = []

    @app.task(name="pay")
    def pay(amount: Money, into: Path = Path("/srv"), item: Item = ITEM) -> None:
        seen.append((amount, into, item))
        current().update(amount=amount, item=item)
        current().update(into=into)

    job = pay.enqueue(Money(150))
    app.worker().run_until_empty()
    assert job.refresh().data == {"amount": "1.50 EUR", "item": ITEM.model_dump(mode="json"), "into": "/srv"}
    job.update(into=Path("/var"))
    assert job.refresh().data["into"] == "/var"
    app.schedule("daily", pay.every("every day at 4am"), Money(7), Path("/x"))
    with app.testing(schedules=True) as t:
        t.advance("25 hours")
        t.assert_enqueued(pay, amount=Money(7), into=Path("/x"))
        t.run_all()
    assert seen == [(Money(150), Path("/srv"), ITEM), (Money(7), Path("/x"), ITEM)]


def test_the_command_line_takes_models_paths_and_own_types_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "payments.py").write_text(
        "from fractions import Fraction\nfrom pathlib import Path\nfrom pydantic import BaseModel\n"
        "from headrace import Headrace\n"
        "app = Headrace('sqlite:///jobs.db')\napp.codec(Fraction, encode=str, decode=Fraction)\n"
        "class Item(BaseModel):\n    sku: str\n"
        "@app.task(name='pay')\n"
        "def pay(item: Item, share: Fraction, into: Path) -> str:\n    return f'{item!r} {share!r} {into!r}'\n"
    )
    ran, refused = (
        CliRunner().invoke(cli, ["enqueue", "--app", "payments:app", "pay", item, '"1/3"', "into=/srv"])
        for item in ('{"sku":"a"}', '{"sku":5}')
    )
    assert ran.exit_code == 0, ran.output
    assert refused.exit_code != 0
    assert "Item: sku: Input should be a valid string - at `$.item`" in refused.output
    app = sys.modules["payments"].app
    app.worker().run_until_empty()
    (job,) = app.jobs()
    assert job.result() == "Item(sku='a') Fraction(1, 3) PosixPath('/srv')"
    app.close()
    del sys.modules["payments"]


KEYS = """
from headrace import Headrace
from headrace.task import content_key
from app.test_foreign_types import Labels, Money, ITEM, with_money
app = with_money(Headrace("sqlite:///:memory:"))
@app.task(name="take")
def take(labels: Labels, amount: Money = Money(5), item=None): ...
one = Labels(names={"x", "y", "zz"}, sets={frozenset("ab"), frozenset("cd")}, by={"a": {"p", "q"}, "b": {"r"}})
other = Labels(names={"zz", "y", "x"}, sets={frozenset("dc"), frozenset("ba")}, by={"b": {"r"}, "a": {"q", "p"}})
calls = [(one,), (other,), (one, Money(5)), (other, Money(5), None)]
keys = {content_key(take, take.call(*args).new.body) for args in calls}
print(*keys)
"""


class Labels(BaseModel):
    names: set[str]
    sets: set[frozenset[str]] = set()
    by: dict[str, set[str]] = {}


def test_unique_keys_are_the_same_in_each_process() -> None:
    """Sets have another order in each of them."""
    keys = set()
    for seed in "1", "2", "3":
        paths = os.pathsep.join([str(Path(__file__).parents[1]), environment().get("PYTHONPATH", "")])
        env = environment() | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        ran = subprocess.run(
            [sys.executable, "-c", KEYS], env=env, check=True, timeout=60, capture_output=True, text=True
        )
        keys.add(ran.stdout)
    (key,) = keys
    assert len(key.split()) == 2  # one key: the task's name, and the hash


def test_unique_jobs_are_told_apart_by_models(app: Headrace) -> None:
    @app.task
    def take(item: Item) -> None: ...

    first = take.using(unique=True).enqueue(ITEM)
    assert take.using(unique=True).enqueue(ITEM.model_copy()).id == first.id
    assert take.using(unique=True).enqueue(ITEM.model_copy(update={"sku": "b"})).id != first.id
