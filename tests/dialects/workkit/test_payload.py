"""The canonical text and the id: the four vectors, and every rule that makes two producers write the same bytes."""

from __future__ import annotations

import hashlib
import json

import pytest

from headrace.dialects.workkit.payload import canonical, job_id, member_of, read_payload
from headrace.errors import ArgumentsError

VECTORS = [
    (
        ("#'clojure.core/println", "* * * * * * *", ["test"]),
        r"""{"args":["test"],"cron":"* * * * * * *","job":"#'clojure.core\/println"}""",
        "b47c4f60e77f631e8045ca999ec215fa74d4d658",
    ),
    (
        ("#'clojure.core/println", "* * * * * * *", []),
        r"""{"args":[],"cron":"* * * * * * *","job":"#'clojure.core\/println"}""",
        "a6daf9217f92031e5543bae88a2362c9880f2278",
    ),
    (
        ("#'clojure.core/println", "2014 3 * 0/2,3 9-17 * */5", ["Beep!"]),
        r"""{"args":["Beep!"],"cron":"2014 3 * 0\/2,3 9-17 * *\/5","job":"#'clojure.core\/println"}""",
        "14e62dd042f5f8276218606781351d07ab0c1ad1",
    ),
    (
        ("#'app.mail/send", "2030 1 2 * 3 4 5", ["Zoë", "a/b", {"b": 1, "a": [None, True]}, 7]),
        r"""{"args":["Zo\u00eb","a\/b",{"a":[null,true],"b":1},7],"cron":"2030 1 2 * 3 4 5","""
        r""""job":"#'app.mail\/send"}""",
        "f10ba73193e84a9074293956a4e43f9c219a5f04",
    ),
]


@pytest.mark.parametrize(("call", "text", "identity"), VECTORS)
def test_the_vectors_of_the_specification(call: tuple[str, str, list[object]], text: str, identity: str) -> None:
    assert canonical(*call).decode() == text
    assert job_id(canonical(*call)) == identity
    assert member_of(identity) == b'{"id":"%s"}' % identity.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("~\x7f\x80", r'"~\u007f\u0080"'),
        ("\N{GRINNING FACE}", r'"\ud83d\ude00"'),
        ('"\\', r'"\"\\"'),
        ("\b\f\n\r\t\x01\x1f", r'"\b\f\n\r\t\u0001\u001f"'),
        ("<>&'", '"<>&\'"'),
        (2**70, str(2**70)),
        (-1, "-1"),
        (0.1, "0.1"),
        (1.0, "1.0"),
        ({"z": {"b": 1, "a": 2}, "Ä": 1}, r'{"z":{"a":2,"b":1},"\u00c4":1}'),
        ((1, [2]), "[1,[2]]"),
        (None, "null"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert canonical("j", "* * * * * * *", [value]).decode() == f'{{"args":[{text}],"cron":"* * * * * * *","job":"j"}}'


def test_blanks_of_a_cron_are_made_one_and_nothing_else_is_changed() -> None:
    assert json.loads(canonical("j", " 00  1,2\t* * 0 *  0 ", []))["cron"] == "00 1,2 * * 0 * 0"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1, 2}, b"bytes", object()])
def test_what_no_peer_could_read_is_refused(value: object) -> None:
    with pytest.raises(ArgumentsError, match="cannot be written as JSON"):
        canonical("j", "* * * * * * *", [value])


def test_the_id_is_of_exactly_the_bytes_that_are_stored() -> None:
    text = canonical("j", "* * * * * * *", ["ü"])
    assert job_id(text) == hashlib.sha1(text).hexdigest()


def test_readers_accept_any_order_white_space_and_other_fields() -> None:
    payload = read_payload(b'\n{"since": [1], "args" : [ {"a": 1.50} , 9007199254740993 ], "job": "x", "cron":"c"} ')
    assert payload is not None
    assert (payload.job, payload.cron, payload.arguments) == ("x", "c", [b'{"a": 1.50}', b"9007199254740993"])


@pytest.mark.parametrize("text", [b'{"job":"x","cron":"c"}', b'{"job":"x","cron":"c","args":null}'])
def test_missing_arguments_are_none(text: bytes) -> None:
    payload = read_payload(text)
    assert payload is not None
    assert payload.arguments == []


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"job":1,"cron":"c"}', b'{"job":"x"}', b"\xff", b'{"job":"x","cron":"c","args":{}}']
)
def test_what_is_not_a_job_is_none(text: bytes) -> None:
    assert read_payload(text) is None
