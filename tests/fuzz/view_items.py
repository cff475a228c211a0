"""Items of living groups, for the corpus that is spoiled: valid ones, of small views."""

from collections.abc import Callable
from random import Random

from tests.fuzz.tree_items import some_bundle
from whence.core.ready import Item
from whence.core.views import items
from whence.core.views.view import Ballot, Cut, MarkAt, MemberId, View


def _number(random: Random) -> int:
    return random.choice((0, 1, random.randrange(1000), random.randrange(10**9)))


def _numbers(random: Random, size: int) -> list[int]:
    return [_number(random) for _ in range(size)]


def _pids(random: Random) -> list[int]:
    return [random.randrange(100) for _ in range(random.randrange(4))]


def _ballot(random: Random) -> Ballot:
    return Ballot(random.randrange(1000), random.randrange(100))


def _mark(random: Random) -> MarkAt:
    return MarkAt(*_numbers(random, 4))


def some_view(random: Random) -> View:
    """Draw a view with members, voters among them, and somebody it removed."""
    epoch = random.randrange(1, 1000)
    ids = [MemberId(pid, random.randrange(epoch)) for pid in random.sample(range(100), random.randint(2, 5))]
    members, gone = ids[:-1], ids[-1]
    voters = random.sample(members, random.randint(1, len(members)))
    cut = Cut(gone, _number(random), _number(random), [_mark(random)])
    return View(epoch, members, voters, [random.randrange(9) for _ in members], [cut])


def _message(random: Random) -> items.ViewMessage:
    past = _numbers(random, random.randint(1, 4))
    return items.ViewMessage(
        random.randrange(len(past)), _number(random), past, _number(random), random.random() < 0.5,
        past if random.random() < 0.5 else [], some_bundle(random),
    )  # fmt: skip


def _ack(random: Random) -> items.ViewAck:
    size = random.randrange(5)
    removed = [(random.randrange(100), _number(random), _number(random)) for _ in range(random.randrange(3))]
    epoch = _number(random)
    return items.ViewAck(
        epoch, epoch, _numbers(random, size), _numbers(random, size), _numbers(random, size), _number(random), removed,
        random.random() < 0.5,
    )  # fmt: skip


def _report(random: Random) -> items.Report:
    size = random.randint(1, 4)
    marks = [[_mark(random)] if random.random() < 0.5 else [] for _ in range(size)]
    first, second, third, fourth, fifth = (_numbers(random, size) for _ in range(5))
    return items.Report(
        _number(random), _ballot(random), first, second, third, fourth, marks, _pids(random), -1,
        random.random() < 0.5, fifth,
    )  # fmt: skip


def _mark_item(random: Random) -> items.ViewMark:
    past = _numbers(random, random.randint(1, 4))
    epoch = _number(random)
    return items.ViewMark(random.randrange(len(past)), epoch, past, _number(random), random.randint(0, epoch))


VIEW_MAKERS: dict[type[Item], Callable[[Random], Item]] = {
    items.ViewMessage: _message,
    items.ViewMark: _mark_item,
    items.ViewAck: _ack,
    items.Fetch: lambda random: items.Fetch(random.randrange(100), *_numbers(random, 3)),
    items.Taken: lambda random: items.Taken(random.randrange(100), *_numbers(random, 2)),
    items.JoinRequest: lambda random: items.JoinRequest(_number(random), random.random() < 0.5),
    items.Hint: lambda random: items.Hint(_number(random)),
    items.Wish: lambda random: items.Wish(
        _number(random), _pids(random), _pids(random), [(1, 2)], _pids(random), random.random() < 0.5
    ),
    items.Prepare: lambda random: items.Prepare(_number(random), _ballot(random)),
    items.Promise: lambda random: items.Promise(
        _number(random), _ballot(random), _ballot(random), some_view(random) if random.random() < 0.5 else None
    ),
    items.Freeze: lambda random: items.Freeze(_number(random), _ballot(random), _pids(random)),
    items.Report: _report,
    items.Target: lambda random: items.Target(_number(random), _ballot(random), _numbers(random, 3)),
    items.Flushed: lambda random: items.Flushed(_number(random), _ballot(random)),
    items.Accept: lambda random: items.Accept(_number(random), _ballot(random), some_view(random)),
    items.Accepted: lambda random: items.Accepted(_number(random), _ballot(random)),
    items.Nak: lambda random: items.Nak(_number(random), _ballot(random)),
    items.Decree: lambda random: items.Decree(some_view(random), random.random() < 0.5),
    items.Knows: lambda random: items.Knows(_number(random)),
    items.Beat: lambda random: items.Beat(_number(random), _number(random), _number(random)),
}
"""How to make one of each kind."""
