"""A living run as its oracles see it: views, and one line of steps per membership.

A *member* of a group is (pid, nonce, joined): the process, the incarnation of it that asked to join, and the epoch of
the view that added it. A *membership* is what a trace shows of one member: rows of one process in one group, in program
order. With a journal it goes on through restarts, without them each incarnation is another one. It ends
for good with a leave row or a wiped disk, and what the process does in that group later is another membership: nothing
published there follows what was published here. Groups are strangers: program order is kept for each group by itself.
So are the generations that an operator forces, and groups of one name that were begun separately: nothing is promised
across them, and each is judged as a group of its own, which the survivors of the one before begin.

Of the protocol's own words only these are used: the epoch of a publication, the views entered, and what applications
were told. A crash between two effects may swallow the row of a view or of a join, so a membership without such rows
takes its name from the views of others, where one fits.
"""

from functools import cached_property
from operator import itemgetter
from typing import Final, NamedTuple

from whence.check.closure import NO_EVENT, Process
from whence.check.history import (
    AFTER_ALL,
    ALL_INCARNATIONS,
    AT_GRP,
    AT_REASON,
    AT_T_TRUE,
    BEFORE_ALL,
    KEY_OF,
    History,
    Stay,
    Step,
)
from whence.check.living.closings import away, closings
from whence.epochs import NUMBER_BITS, generation_of, is_founding, line_of
from whence.trace.memory import Row, Trace
from whence.trace.schema import COLUMNS_OF, DESTS, EPOCH, IDS, T_CLK, VALUE, Kind

_AT = COLUMNS_OF[Kind.VIEW].index
AT_VIEW_EPOCH, AT_MEMBERS, AT_PIDS, AT_VALUE = _AT(EPOCH), _AT(IDS), _AT(DESTS), _AT(VALUE)
AT_T_CLK = _AT(T_CLK)
AT_EPOCH: Final = {kind: COLUMNS_OF[kind].index(EPOCH) for kind in (Kind.PUBLISH, Kind.DELIVER)}

STORED, MAJORITY, SETTLED = RECEIPTS = ("stored", "majority", "settled")
"""Reasons of notes: the publisher's application was told that this event and its earlier own ones came that far."""

LEFT, REMOVED, UNKNOWN_VERDICT = "left", "removed", "removed_unknown"
"""Reasons of leave rows."""

WIPED: Final = "wiped"
UNSUPPLIABLE: Final = "unsuppliable"
"""The reason of a note: nobody has what a change needs, and only an operator can help."""

FORCED: Final = "forced"
"""The reason of a note: a member entered an operator's view, which replaces that of the epoch in `value`."""

OUTSIDE: Final = "outside"
"""The reason of a note: a member that is out learnt of this view. Who is in it may be gone."""

VOTERS_MAX = 7

_ENDS_UP = (Kind.CRASH, Kind.RESTART)
_IN_LINE = (Kind.PUBLISH, Kind.DELIVER, Kind.GAP, Kind.JOIN, Kind.LEAVE, Kind.VIEW, Kind.NOTE, *_ENDS_UP)


class Departure(NamedTuple):
    """Where a process went on in another generation: the row that says so, and when it was written."""

    inc: int
    ev: int
    t_clk: int

    def is_after(self, row: Row) -> bool:
        """Return whether a row is of what came before. What was done in the very same step follows from it."""
        return row[1:3] < self[:2] and (row[1], row[AT_T_CLK]) != (self.inc, self.t_clk)


NO_DEPARTURE: Final = Departure(-1, -1, -1)


class MemberId(NamedTuple):
    """A member, as views name it."""

    pid: int
    nonce: int
    joined: int


class View(NamedTuple):
    """One view of a group."""

    grp: str
    epoch: int
    members: tuple[MemberId, ...]
    voters: int | None
    """The voters, as bits by place among the members; None where the trace does not say."""

    def find(self, pid: int) -> MemberId | None:
        """Return the member that a process is in this view."""
        return next((member for member in self.members if member.pid == pid), None)

    def is_quorum(self, up: list[int]) -> bool:
        """Return whether these processes can decide the next view: each voter weighs 2, the first of an even number 3.

        Where the trace does not say who votes, it is the first members.
        """
        voters = [
            member
            for place, member in enumerate(self.members)
            if (place < VOTERS_MAX if self.voters is None else self.voters >> place & 1)
        ]
        weights = [2] * len(voters)
        if weights and len(weights) % 2 == 0:
            weights[0] = 3
        there = sum(weight for member, weight in zip(voters, weights, strict=True) if member.pid in up)
        return 2 * there > sum(weights)


def view_of(row: Row) -> View:
    """Return the view that a view row names."""
    members = tuple(MemberId(*member) for member in row[AT_MEMBERS] or ())
    return View(row[AT_GRP], row[AT_VIEW_EPOCH], members, row[AT_VALUE])


class Membership:
    """What the rows of one process show of it as one member of one group."""

    def __init__(self, process: Process, grp: str, group: str, *, goes_on: bool) -> None:
        self.process, self.grp = process, grp
        self.group = group
        """The name of the group in rows; `grp` tells its generations apart."""
        self.goes_on = goes_on
        """It follows one that ended without a leave row."""
        self.joined: int | None = None
        """The epoch that added it; None while no view and no row tells."""
        self.nonce: int | None = None
        self.first_inc = self.last_inc = 0
        self.join: Row | None = None
        """The first row that says it is live."""
        self.leave: Row | None = None
        self.entered: list[Row] = []
        """The view rows it wrote, in order."""
        self.has_ended = False
        """For good: nothing that comes later is a step of this member."""
        self.is_up = True
        self.moved_on: Departure | None = None
        """Where the process entered another generation, to go on there."""
        self.is_durable = False
        """Its last incarnation remembers across crashes."""
        self.is_silent = True
        """No row of the group is among its steps: crashes and restarts only."""
        self.is_back = True
        """It did something in the group since its process was last restarted. Who goes on says so at once; who says
        nothing had ended, and died before the row that tells it."""

    @property
    def pid(self) -> int:
        """The process."""
        return self.process[0]

    @property
    def name(self) -> Process:
        """The process and its last incarnation, for sentences."""
        return self.pid, self.last_inc

    def take(self, kind: Kind, row: Row, *, durable: bool) -> None:
        """Add a step of an incarnation that remembers (`durable`) or not."""
        if not self.first_inc:
            self.first_inc = row[1]
        self.last_inc, self.is_durable = row[1], durable
        self.is_silent &= kind in _ENDS_UP
        self.is_back = kind is not Kind.RESTART and (self.is_back or kind is not Kind.CRASH)
        if kind is Kind.VIEW:
            self.entered.append(row)
            own = view_of(row).find(self.pid)
            if own is not None:
                self.nonce, self.joined = own.nonce, own.joined
                if line_of(own.joined) != line_of(row[AT_VIEW_EPOCH]):
                    self.join = self.join or row  # a survivor of the generation before
        elif kind is Kind.JOIN:
            self.join = self.join or row
            if self.joined is None:
                self.nonce, self.joined = row[AT_VALUE], row[AT_VIEW_EPOCH]
        elif kind is Kind.LEAVE:
            self.leave, self.has_ended = row, True
        elif kind is Kind.CRASH:
            self.is_up, self.has_ended = False, not durable or row[AT_REASON] == WIPED
        elif kind is Kind.RESTART:
            self.is_up = True

    def is_over_at(self, kind: Kind, row: Row, *, durable: bool) -> bool:
        """Return whether a row of the process belongs to another membership."""
        if self.has_ended or (row[1] != self.last_inc and not (durable and self.is_durable)):
            return True
        if kind is Kind.RESTART and row[AT_REASON] == WIPED:
            return True
        if self.joined is None or kind not in (Kind.VIEW, Kind.JOIN):
            return False
        own = view_of(row).find(self.pid) if kind is Kind.VIEW else None
        joined = row[AT_VIEW_EPOCH] if kind is Kind.JOIN else self.joined if own is None else own.joined
        return joined is not None and joined != self.joined


class Living(History):
    """A living run: a process of the history is a membership, named (pid, how many this pid has had)."""

    def __init__(self, trace: Trace) -> None:
        self.memberships: dict[Process, Membership] = {}
        self.publisher: dict[int, Process] = {}
        """The membership that published each event."""
        self._owners: dict[tuple[object, ...], Process] = {}
        self._labels = _labels(trace)
        super().__init__(trace)

    @property
    def is_strict(self) -> bool:
        """Whether the group promises one sequence."""
        return bool(self.run.parameters.get("strict"))

    # --- lines ---

    def process_of(self, row: Row) -> Process:
        """Return the membership that a row belongs to; of a bare (pid, incarnation), the last one there."""
        if len(row) > 2:
            return self._owners.get((row[AT_GRP], *row[:3]), (row[0], ALL_INCARNATIONS))
        there = [each for each in self.memberships.values() if each.first_inc <= row[1] <= each.last_inc]
        return next((each.process for each in reversed(there) if each.pid == row[0]), (row[0], ALL_INCARNATIONS))

    def _lines(self) -> dict[Process, list[Step]]:
        by_node: dict[int, list[Step]] = {}
        groups = {grp: [grp] for grp in self.run.groups}
        for kind in _IN_LINE:
            has_event = kind is Kind.PUBLISH or kind is Kind.DELIVER
            for row in self.trace.rows[kind]:
                if kind is Kind.NOTE and row[AT_REASON] not in RECEIPTS:
                    continue
                event = self.number.get(row[KEY_OF], NO_EVENT) if has_event else NO_EVENT
                if kind is Kind.PUBLISH and self.published[event] is not row:
                    event = NO_EVENT  # a reused id is no second publication of the event
                by_node.setdefault(row[0], []).append((row[1], row[2], kind, event, row))
                if row[AT_GRP] is not None:
                    groups.setdefault(row[AT_GRP], [row[AT_GRP]])
        for (grp, _), label in self._labels.items():
            groups[grp] = list(dict.fromkeys([*groups.get(grp, []), label]))
        lines: dict[Process, list[Step]] = {}
        for node, steps in sorted(by_node.items()):
            steps.sort(key=itemgetter(0, 1))
            count = 0
            for grp, labels in groups.items():
                of_line, moved_on = self._by_label(grp, labels, steps)
                for label in labels:
                    for membership, line in self._memberships_of(node, grp, label, of_line[label], count):
                        lines[membership.process] = line
                        self.memberships[membership.process] = membership
                        membership.moved_on = moved_on.get(label)
                        count += 1
        self._name_by_views()
        return lines

    def _by_label(
        self, grp: str, labels: list[str], steps: list[Step]
    ) -> tuple[dict[str, list[Step]], dict[str, Departure]]:
        """Return the steps of a process in each generation of a group, and where it went on in another one. What it
        does with an event belongs to that in which the event was published. What it is told of its own events once it
        is in another generation speaks of those who are there with it, and is left out."""
        if len(labels) == 1:
            return {labels[0]: steps}, {}
        found: dict[str, list[Step]] = {label: [] for label in labels}
        now = labels[0]
        entered: list[tuple[Departure, str]] = []
        for step in steps:
            inc, ev, kind, event, row = step
            if kind in _ENDS_UP:
                for label in labels:
                    if label == labels[0] or found[label]:
                        found[label].append(step)
                continue
            if row[AT_GRP] != grp:
                continue
            if kind is Kind.VIEW:
                now = self.label(grp, row[AT_VIEW_EPOCH])
                entered.append((Departure(inc, ev, row[AT_T_CLK]), now))
                found[now].append(step)
            elif kind in AT_EPOCH:
                of_event = self.number.get(row[KEY_OF], NO_EVENT)
                epoch = row[AT_EPOCH[kind]] if of_event == NO_EVENT else self.epoch_of(of_event)
                found[self.label(grp, epoch)].append(step)
            elif kind is Kind.NOTE and (event := self.number.get(row[KEY_OF], NO_EVENT)) != NO_EVENT:
                if self.group_of(event) == now or row[KEY_OF][1] != row[0]:
                    found[self.group_of(event)].append(step)
            elif kind is Kind.JOIN:
                found[self.label(grp, row[AT_VIEW_EPOCH])].append(step)
            else:
                found[now].append(step)
        return found, {label: _departure(label, entered) for label in labels if label != now}

    def label(self, grp: str, epoch: int | None) -> str:
        """Return the name under which a generation of a group is judged."""
        return self._labels.get((grp, line_of(epoch)), grp) if epoch is not None else grp

    def view_at(self, row: Row) -> View:
        """Return the view that a view row names, in its generation."""
        view = view_of(row)
        return view._replace(grp=self.label(view.grp, view.epoch))

    def group_of(self, event: int) -> str:
        """Return the group, and its generation, in which an event was published."""
        return self.label(super().group_of(event), self.epoch_of(event))

    def _memberships_of(
        self, node: int, group: str, grp: str, steps: list[Step], before: int
    ) -> list[tuple[Membership, list[Step]]]:
        """Return the memberships of a process in a generation of a group, each with its line."""
        found: list[tuple[Membership, list[Step]]] = []
        for step in steps:
            _, _, kind, event, row = step
            if row[AT_GRP] != group and kind not in _ENDS_UP:
                continue
            durable = self.is_durable(row[0], row[1])
            if not found or found[-1][0].is_over_at(kind, row, durable=durable):
                if kind is Kind.CRASH and found:
                    found[-1][0].is_up = False
                    continue
                goes_on = not found or found[-1][0].leave is None
                found.append((Membership((node, before + len(found) + 1), grp, group, goes_on=goes_on), []))
            membership, line = found[-1]
            membership.take(kind, row, durable=durable)
            line.append(step)
            self._owners[group, *row[:3]] = membership.process
            if kind is Kind.PUBLISH and event != NO_EVENT:
                self.publisher[event] = membership.process
        return found

    def _name_by_views(self) -> None:
        """Name the memberships whose own rows do not, where exactly one member of all views fits."""
        named = {(each.grp, each.pid, each.joined) for each in self.memberships.values()}
        for each in self.memberships.values():
            if each.joined is not None:
                continue
            fitting = {
                member: None
                for view in self.views.values()
                if view.grp == each.grp
                for member in view.members
                if member.pid == each.pid and each.first_inc <= member.nonce <= each.last_inc
            }
            free = [member for member in fitting if (each.grp, each.pid, member.joined) not in named]
            if len(free) == 1:
                each.nonce, each.joined = free[0].nonce, free[0].joined

    # --- views ---

    @cached_property
    def views(self) -> dict[tuple[str, int], View]:
        """The view of each group and epoch, as whoever is first in the trace entered it; or, where nobody did, as one
        that is out learnt of it."""
        views: dict[tuple[str, int], View] = {}
        told = [row for row in self.trace.rows[Kind.NOTE] if row[AT_REASON] == OUTSIDE]
        for row in [*sorted(self.trace.rows[Kind.VIEW], key=itemgetter(0, 1, 2)), *told]:
            view = self.view_at(row)
            views.setdefault((view.grp, view.epoch), view)
        return dict(sorted(views.items()))

    @cached_property
    def latest(self) -> dict[str, View]:
        """The latest view of each group that anybody entered, or learnt of when it was out."""
        return {grp: view for (grp, _), view in self.views.items()}

    @cached_property
    def known(self) -> dict[str, View]:
        """The latest view of each group that somebody entered, or learnt of when it was out, whose process is up."""
        up = [each for process, each in self.memberships.items() if each.is_up and process not in self.away]
        pids = {each.pid for each in up}
        rows = [row for each in up for row in each.entered]
        rows += [row for row in self.trace.rows[Kind.NOTE] if row[AT_REASON] == OUTSIDE and row[0] in pids]
        epochs = {view.grp: view.epoch for view in sorted(map(self.view_at, rows), key=lambda view: view.epoch)}
        return {grp: self.views[grp, epoch] for grp, epoch in epochs.items()}

    @cached_property
    def founding(self) -> dict[str, int]:
        """The first epoch of each group: who has it as its own is no joiner."""
        first: dict[str, int] = {}
        for each in self.memberships.values():
            if each.joined is not None:
                first[each.grp] = min(first.get(each.grp, each.joined), each.joined)
        for view in self.views.values():
            for member in view.members:
                first[view.grp] = min(first.get(view.grp, member.joined), member.joined)
        return first

    def is_joiner(self, process: Process) -> bool:
        """Return whether a member came after the group began."""
        membership = self.memberships[process]
        if membership.joined is None:
            return False
        label = membership.grp
        forced = next((line for (_, line), name in self._labels.items() if name == label), None)
        if forced is not None:
            # survivors came with an earlier generation, and founders with the first view
            return line_of(membership.joined) == forced and not is_founding(membership.joined)
        return membership.joined > self.founding[label]

    def is_in(self, process: Process, epoch: int | None) -> bool | None:
        """Return whether a member is in the view of an epoch; None where nobody recorded that view."""
        membership = self.memberships[process]
        view = None if epoch is None else self.views.get((membership.grp, epoch))
        if view is None:
            return None
        own = view.find(process[0])
        return own is not None and own.joined == membership.joined

    def epoch_of(self, event: int) -> int | None:
        """Return the epoch an event was published in."""
        epoch: int | None = self.published[event][AT_EPOCH[Kind.PUBLISH]]
        return epoch

    @cached_property
    def meant(self) -> dict[Process, int]:
        """Per membership, the events that were published in a view it is in, as bits."""
        meant = dict.fromkeys(self.memberships, 0)
        for (grp, epoch), mask in self._by_epoch.items():
            for process, each in self.memberships.items():
                if each.grp == grp and self.is_in(process, epoch):
                    meant[process] |= mask
        return meant

    @cached_property
    def left_behind(self) -> int:
        """The events of members that did not go on in another generation, as bits."""
        return sum(1 << event for event, who in self.publisher.items() if not self.memberships[who].moved_on)

    @cached_property
    def homeless(self) -> dict[str, int]:
        """Per group, the events published in views that nobody recorded, as bits."""
        masks: dict[str, int] = {}
        for (grp, epoch), mask in self._by_epoch.items():
            if epoch is None or (grp, epoch) not in self.views:
                masks[grp] = masks.get(grp, 0) | mask
        return masks

    @cached_property
    def _by_epoch(self) -> dict[tuple[str, int | None], int]:
        masks: dict[tuple[str, int | None], int] = {}
        for event in range(len(self.published)):
            at = (self.group_of(event), self.epoch_of(event))
            masks[at] = masks.get(at, 0) | 1 << event
        return masks

    # --- who stays ---

    @cached_property
    def staying(self) -> dict[Process, Membership]:
        """The members of the latest view of their group that are up at the end and did not end; and the last member,
        which closed the group: it is judged up to its end."""
        return {
            process: each
            for process, each in self.memberships.items()
            if each.is_up
            and not each.moved_on
            and (not each.has_ended or self._has_closed(each))
            and each.grp in self.latest
            and self.is_in(process, self.latest[each.grp].epoch)
        }

    @cached_property
    def judged(self) -> dict[Process, Membership]:
        """Who stays; and of a group that was closed, all who left it by themselves: they are judged up to their end."""
        closed = {each.grp for each in self.staying.values() if each.has_ended}
        return {
            process: each
            for process, each in self.memberships.items()
            if process in self.staying
            or (each.grp in closed and each.leave is not None and each.leave[AT_REASON] == LEFT)
        }

    @cached_property
    def last_epoch(self) -> dict[Process, int]:
        """The epoch of the last view that each membership is in; of those that are in any."""
        return {
            process: epoch
            for (grp, epoch), _ in self.views.items()
            for process, each in self.memberships.items()
            if each.grp == grp and self.is_in(process, epoch)
        }

    @cached_property
    def owed(self) -> dict[Process, int]:
        """Per membership that is judged, the events of its views, as bits. To who left only those of members that were
        out before it: of others it need not have got the last."""
        owed: dict[Process, int] = {}
        for process, each in self.judged.items():
            mask = self.meant[process]
            if each.has_ended:
                gone = [
                    event
                    for publisher, own in self.own.items()
                    if publisher == process or self.last_epoch.get(publisher, 0) < self.last_epoch.get(process, 0)
                    for event in own
                ]
                mask &= sum(1 << event for event in gone)
            owed[process] = mask
        return owed

    @cached_property
    def due(self) -> dict[Process, int]:
        """The same without what was published after a member had closed the group."""
        due = self.owed.copy()
        for process, row in self.closings.items():
            if process in due and row[AT_T_TRUE] is not None:
                later = [event for event, each in enumerate(self.published) if (each[AT_T_TRUE] or 0) > row[AT_T_TRUE]]
                due[process] &= ~sum(1 << event for event in later)
        return due

    # --- who closed the group and is a member still ---

    @cached_property
    def closings(self) -> dict[Process, Row]:
        """Per membership that closed its group in order, and is a member still and not back: the row that says so."""
        return closings(self)

    @cached_property
    def away(self) -> dict[Process, None]:
        """Those of them that count as down."""
        return away(self)

    def _has_closed(self, each: Membership) -> bool:
        """Return whether a member left its group as the last one: it names the view that it was alone in."""
        latest, row = self.latest.get(each.grp), each.leave
        if latest is None or row is None or row[AT_REASON] != LEFT:
            return False
        return bool(row[AT_VIEW_EPOCH] == latest.epoch and len(latest.members) == 1)

    @cached_property
    def handed(self) -> dict[Process, int]:
        """Per membership, what it was handed, as bits."""
        return {process: sum(1 << event for event in events) for process, events in self.delivered.items()}

    @cached_property
    def own(self) -> dict[Process, list[int]]:
        """Per membership, what it published, in program order."""
        return {
            process: [event for _, _, kind, event, _ in line if kind is Kind.PUBLISH and event != NO_EVENT]
            for process, line in self.lines.items()
        }

    # --- what oracles of all runs ask ---

    @cached_property
    def stays(self) -> dict[Process, list[Stay]]:
        """A membership is one stay, unless no view ever named it."""
        return {
            process: [] if each.joined is None else [self._stay(process, each)]
            for process, each in self.memberships.items()
        }

    def _stay(self, process: Process, each: Membership) -> Stay:
        since = AFTER_ALL if each.join is None or each.join[AT_T_TRUE] is None else each.join[AT_T_TRUE]
        ended = BEFORE_ALL if each.leave is None or each.leave[AT_T_TRUE] is None else each.leave[AT_T_TRUE]
        return Stay(
            each.group, since if self.is_joiner(process) else BEFORE_ALL, ended if each.has_ended else AFTER_ALL,
            (-1, -1), (AFTER_ALL, 0),
        )  # fmt: skip

    @cached_property
    def up(self) -> dict[Process, bool]:
        """Whether a membership is up at the end and has not ended."""
        return {
            process: each.is_up and not (each.has_ended or each.moved_on or process in self.away)
            for process, each in self.memberships.items()
        }


def _departure(label: str, entered: list[tuple[Departure, str]]) -> Departure:
    """Return where a process first went from one generation to another, by the views that it entered."""
    begun = next((place for place, name in entered if name == label), NO_DEPARTURE)
    return next((place for place, name in entered if name != label and place > begun), NO_DEPARTURE)


def _labels(trace: Trace) -> dict[tuple[str, int], str]:
    """Return what to call the generations of groups that were forced, and groups of one name beside the first of them:
    by group and line. Where a group has one line, as all have that nobody forces, there is nothing to call."""
    lines: dict[str, dict[int, None]] = {}
    told = [row for row in trace.rows[Kind.NOTE] if row[AT_REASON] == OUTSIDE]
    for row in [*trace.rows[Kind.VIEW], *told]:
        lines.setdefault(row[AT_GRP], {})[line_of(row[AT_VIEW_EPOCH])] = None
    return {
        (grp, line): f"{grp} ({_of_generation(line)})" for grp, found in lines.items() for line in sorted(found)[1:]
    }


def _of_generation(line: int) -> str:
    epoch = line << NUMBER_BITS
    return f"generation {generation_of(epoch)}, {line:x}"
