"""Arguments by name, as tasks have them, and by position, as some wires have them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from headrace.errors import ArgumentsError

decode_by_name = msgspec.json.Decoder(dict[str, Raw]).decode
decode_array = msgspec.json.Decoder(list[Raw]).decode


class Positions:
    """The parameters of a task that have a position, in order. `*args` takes what is left.

    >>> def send(to: str, subject: str = "hi", *copies: str) -> None: ...
    >>> positions = Positions("send", list(inspect.signature(send).parameters.values()))
    >>> positions.take(decode_by_name(b'{"to":"ada","copies":["bob"]}'))
    [b'"ada"', b'"hi"', b'"bob"']
    >>> positions.body([b'"ada"', b'"x"'])
    b'{"to":"ada","subject":"x"}'
    """

    def __init__(self, task: str, parameters: Sequence[inspect.Parameter]) -> None:
        self._task = task
        self._single = [each for each in parameters if each.kind is not each.VAR_POSITIONAL]
        self._rest = next((each for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        self._keys = [msgspec.json.encode(each.name) for each in self._single]

    def take(self, given: dict[str, Raw]) -> list[bytes]:
        """Take the arguments that have a position out of those given, each as JSON.

        A parameter that was left out before one that is there is filled with its default: no position is left out.
        """
        more = [] if self._rest is None or self._rest.name not in given else decode_array(given.pop(self._rest.name))
        last = max((place for place, each in enumerate(self._single, 1) if each.name in given), default=0)
        filled = self._single if more else self._single[:last]
        values = [bytes(given.pop(each.name)) if each.name in given else self.default(each) for each in filled]
        return [*values, *map(bytes, more)]

    def default(self, parameter: inspect.Parameter) -> bytes:
        """What is written for a parameter that was left out."""
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return b"[]" if parameter.kind is parameter.VAR_POSITIONAL else b"{}"
        try:
            return msgspec.json.encode(parameter.default)
        except (TypeError, ValueError) as error:
            raise ArgumentsError(
                f"{self._task}: {parameter.name!r} is left out before an argument that is given, and its default can't "
                f"be written as JSON: {error}. Pass it."
            ) from None

    def body(self, values: Sequence[bytes]) -> bytes:
        """The arguments by name. What has no parameter gets a name that no task knows: it won't fit."""
        fields = [b"%s:%s" % field for field in zip(self._keys, values, strict=False)]
        more = values[len(self._keys) :]
        if more and self._rest is not None:
            fields.append(b"%s:[%s]" % (msgspec.json.encode(self._rest.name), b",".join(more)))
        elif more:
            first = len(self._keys) + 1
            fields += (b'"argument %d":%s' % (number, value) for number, value in enumerate(more, first))
        return b"{%s}" % b",".join(fields)
