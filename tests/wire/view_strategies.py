"""Values of the items of living groups whose fields must agree with each other."""

from typing import Any

from hypothesis import strategies as st

from whence import limits
from whence.core.views.items import Accept, Decree, Promise, Report, ViewAck, ViewMark, ViewMessage
from whence.core.views.view import Ballot, Cut, MarkAt, MemberId, View
from whence.epochs import EPOCH_MAX
from whence.types import Bundle

NUMBER = st.integers(0, limits.SEQ_MAX)
EPOCH = st.integers(0, EPOCH_MAX)
PID = st.integers(0, limits.PEER_ID_MAX)
BALLOT = st.builds(Ballot, st.integers(0, 2**31 - 1), PID)
MARK = st.builds(MarkAt, EPOCH, EPOCH, NUMBER, EPOCH)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw a view: every peer once, some of them voters, some removed before."""
    epoch = draw(EPOCH)
    pids = draw(st.lists(PID, min_size=2, max_size=6, unique=True))
    ids = [MemberId(pid, draw(st.integers(0, epoch))) for pid in pids]
    here = draw(st.integers(1, len(ids)))
    members, gone = ids[:here], ids[here:]
    voters = draw(st.lists(st.sampled_from(members), min_size=1, max_size=len(members), unique=True))
    nonces = draw(st.lists(st.integers(0, limits.INCARNATION_MAX), min_size=here, max_size=here))
    cuts = [Cut(member, draw(NUMBER), draw(EPOCH), draw(st.lists(MARK, max_size=2))) for member in gone]
    return View(epoch, members, voters, nonces, cuts, draw(st.none() | EPOCH))


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Draw a report about as many streams everywhere."""
    size = draw(st.integers(1, 4))

    def numbers() -> list[int]:
        return draw(st.lists(NUMBER, min_size=size, max_size=size))

    marks = draw(st.lists(st.lists(MARK, max_size=2), min_size=size, max_size=size))
    frozen = draw(st.lists(PID, max_size=3))
    closed = draw(st.integers(-1, EPOCH_MAX))
    return Report(
        draw(EPOCH), draw(BALLOT), numbers(), numbers(), numbers(), numbers(), marks, frozen, closed,
        draw(st.booleans()),
        numbers(),
    )  # fmt: skip


@st.composite
def acknowledgements(draw: st.DrawFn) -> ViewAck:
    """Draw an acknowledgement of as many streams everywhere."""
    size = draw(st.integers(0, 4))
    numbers = st.lists(NUMBER, min_size=size, max_size=size)
    removed = draw(st.lists(st.tuples(PID, EPOCH, NUMBER), max_size=2))
    return ViewAck(
        draw(EPOCH), draw(EPOCH), draw(numbers), draw(numbers), draw(numbers), draw(EPOCH), removed,
        draw(st.booleans()),
    )  # fmt: skip


@st.composite
def marks(draw: st.DrawFn) -> ViewMark:
    """Draw a mark."""
    past = draw(st.lists(NUMBER, min_size=1, max_size=4))
    epoch = draw(EPOCH)
    origin = draw(st.integers(0, len(past) - 1))
    return ViewMark(origin, epoch, past, draw(EPOCH), draw(st.integers(0, epoch)))


def messages(bundles: st.SearchStrategy[Bundle]) -> st.SearchStrategy[ViewMessage]:
    """Draw messages around bundles."""

    @st.composite
    def message(draw: st.DrawFn) -> ViewMessage:
        past = draw(st.lists(NUMBER, min_size=1, max_size=4))
        taken = past if draw(st.booleans()) else []
        origin = draw(st.integers(0, len(past) - 1))
        return ViewMessage(
            origin, draw(EPOCH), past, draw(EPOCH), draw(st.booleans()), taken, draw(bundles)
        )  # fmt: skip

    return message()


def of_views(bundles: st.SearchStrategy[Bundle]) -> dict[type, st.SearchStrategy[Any]]:
    """Return the strategies by item."""
    return {
        View: views(),
        Report: reports(),
        ViewAck: acknowledgements(),
        ViewMark: marks(),
        ViewMessage: messages(bundles),
        Promise: st.builds(Promise, EPOCH, BALLOT, BALLOT, st.none() | views()),
        Accept: st.builds(Accept, EPOCH, BALLOT, views()),
        Decree: st.builds(Decree, views()),
    }
