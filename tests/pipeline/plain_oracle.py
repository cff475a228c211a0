"""A third oracle, deliberately simple: every promise as the documents say it, in plain Python, over rows as dicts.

It reads run.json and the Parquet files of a trace by the documented schema and shares no code with the package: no
import from it, no column names, no closure, no verdict. All pairs and nested loops: it is for small traces, and for
being read beside docs/guarantees.md. `judge(directory)` returns {promise: (outcome, count)}.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]
Process = tuple[int, int]
Event = tuple[str, int, int, int]
Answer = tuple[str, int]

KINDS = (
    "publish", "send", "recv", "deliver", "gap", "late", "drop", "reject", "reset", "join", "leave", "ticket_acquire",
    "ticket_release", "ticket_suspend", "crash", "restart", "view", "note",
)  # fmt: skip
TICKET_KINDS = ("ticket_acquire", "ticket_release", "ticket_suspend")
IN_LINE = ("publish", "deliver", "gap", "join", "leave", "crash", "restart", *TICKET_KINDS)
FOREVER = 2**63 - 1
REPAIR_ROUNDS = 15
DRIFT_MAX = 0.02


class Plain:
    """One run, read as it lies on disk."""

    def __init__(self, directory: Path) -> None:
        self.run = json.loads((directory / "run.json").read_text())
        self.rows: list[Row] = []
        for kind in KINDS:
            for file in sorted((directory / f"kind={kind}").glob("*.parquet")):
                if not file.name.startswith((".", "_")):
                    self.rows += [row | {"kind": kind} for row in pq.ParquetFile(file).read().to_pylist()]
        self.rows = [row for at, row in enumerate(self.rows) if row not in self._same_place(row, at)]
        self.durable = bool(self.run.get("durable"))
        self.parameters = self.run.get("parameters") or {}
        self.phases = self.run.get("phases")
        self.groups: dict[str, list[int]] = self.run["groups"]
        self.complete = self._is_complete()
        self.remembers = self.durable and self.complete
        numbers = [(row["node"], row["inc"], row["ev"]) for row in self.rows]
        if not self.complete:  # where two rows claim one number, neither is believed
            claims = Counter(numbers)
            claimed_twice = {number for number in numbers if claims[number] > 1}
            self.rows = [row for row, number in zip(self.rows, numbers, strict=True) if number not in claimed_twice]
        self.lines = self._lines()
        self.published: dict[Event, Row] = {}
        self.republished: list[Row] = []
        for row in self.rows_of("publish"):
            if event_of(row) in self.published:
                self.republished.append(row)
            else:
                self.published[event_of(row)] = row
        self.first: dict[Process, dict[Event, Row]] = {}
        self.repeats: list[Row] = []
        self.unpublished: list[Row] = []
        for process, line in self.lines.items():
            mine = self.first.setdefault(process, {})
            for row in line:
                if row["kind"] == "deliver":
                    if event_of(row) not in self.published:
                        self.unpublished.append(row)
                    elif event_of(row) in mine:
                        self.repeats.append(row)
                    else:
                        mine[event_of(row)] = row
        self.timed = all(
            row["t_true"] is not None for row in self.rows_of("publish", "join", "leave", "crash", "restart")
        )
        self.stays = {process: self._stays(process) for process in self.lines}
        self._past: dict[Event, set[Event]] = {}

    # --- reading ---

    def _same_place(self, row: Row, at: int) -> list[Row]:
        """The rows before this one that claim the same number; a row equal to one of them was shipped twice."""
        if not hasattr(self, "_by_place"):
            self._by_place: dict[tuple[Any, ...], list[int]] = {}
            for place, each in enumerate(self.rows):
                self._by_place.setdefault((each["node"], each["inc"], each["ev"]), []).append(place)
        places = self._by_place[row["node"], row["inc"], row["ev"]]
        return [self.rows[place] for place in places if place < at]

    def rows_of(self, *kinds: str) -> list[Row]:
        return [row for row in self.rows if row["kind"] in kinds]

    def process(self, row: Row) -> Process:
        return (row["node"], 0 if self.remembers else row["inc"])

    def _is_complete(self) -> bool:
        numbers: dict[Process, list[int]] = {}
        for row in self.rows:
            numbers.setdefault((row["node"], row["inc"]), []).append(row["ev"])
        there, written = sum(map(len, numbers.values())), self.run.get("rows")
        if written is None and not there and self.run["nodes"]:
            return False
        return all(sorted(given) == list(range(len(given))) for given in numbers.values()) and there >= (written or 0)

    def lives(self, node: int) -> list[int]:
        return sorted({row["inc"] for row in self.rows if row["node"] == node})

    def _lines(self) -> dict[Process, list[Row]]:
        lines: dict[Process, list[Row]] = {}
        for row in self.rows_of(*IN_LINE):
            lines.setdefault(self.process(row), []).append(row)
        for nodes in self.groups.values():
            for node in nodes:
                lines.setdefault((node, 0 if self.remembers else (self.lives(node) or [1])[0]), [])
        for line in lines.values():
            line.sort(key=place_of)
        return dict(sorted(lines.items()))

    # --- membership ---

    def _stays(self, process: Process) -> list[Row]:
        """Stays of a process in groups: since and until in true time (None: not told), and the rows that bound them."""
        node, inc = process
        founds = self.durable or inc == (self.lives(node) or [inc])[0]
        here: dict[str, Row] = {
            grp: {"grp": grp, "since": -1, "first": (-1, -1), "founding": True}
            for grp, nodes in self.groups.items()
            if founds and node in nodes
        }
        done = []
        for row in self.lines[process]:
            if row["kind"] == "join" and row["grp"] not in here:
                here[row["grp"]] = {
                    "grp": row["grp"], "since": row["t_true"], "first": place_of(row), "founding": False
                }  # fmt: skip
            if row["kind"] == "leave" or (row["kind"] == "crash" and not self.durable):
                left = [grp for grp in here if row["kind"] == "crash" or grp == row["grp"]]
                end = {"until": row["t_true"], "last": place_of(row), "lasts": False}
                done += [here.pop(grp) | end for grp in left]
        forever = {"until": FOREVER, "last": (FOREVER, FOREVER), "lasts": True}
        return done + [stay | forever for stay in here.values()]

    def is_up(self, process: Process) -> bool:
        turns = [row["kind"] for row in self.lines[process] if row["kind"] in ("crash", "restart")]
        last = self.durable or process[1] == (self.lives(process[0]) or [process[1]])[-1]
        return last and (not turns or turns[-1] == "restart")

    def is_expected(self, event: Event, process: Process) -> bool | None:
        """Was this process a member when this was published, and is it meant for it? None: nobody can tell."""
        row = self.published[event]
        if row["dests"] is not None and process[0] not in row["dests"]:
            return False
        at, answers = row["t_true"], []
        for stay in self.stays[process]:
            if stay["grp"] != event[0]:
                continue
            if at is None:
                answers.append(True if stay["since"] == -1 and stay["lasts"] else None)
            else:
                begun = None if stay["since"] is None else stay["since"] <= at
                lasts = None if stay["until"] is None else at < stay["until"]
                answers.append(False if False in (begun, lasts) else None if None in (begun, lasts) else True)
        return True if True in answers else None if None in answers else False

    # --- happened-before ---

    def steps(self, process: Process) -> list[tuple[Event, bool]]:
        """The publications and first deliveries of a process, in its order."""
        found = []
        for row in self.lines[process]:
            if row["kind"] == "publish" and self.published[event_of(row)] is row:
                found.append((event_of(row), True))
            if row["kind"] == "deliver" and self.first[process].get(event_of(row)) is row:
                found.append((event_of(row), False))
        return found

    def follows(self, event: Event) -> dict[Event, None]:
        """Everything that follows an event in any way, itself included, by a search forwards."""
        found: dict[Event, None] = {}
        todo = [event]
        while todo:
            one = todo.pop()
            if one in found:
                continue
            found[one] = None
            for steps in self.all_steps.values():
                at = next((at for at, (known, _) in enumerate(steps) if known == one), None)
                todo += [] if at is None else [known for known, publishes in steps[at + 1 :] if publishes]
        return found

    @property
    def all_steps(self) -> dict[Process, list[tuple[Event, bool]]]:
        if not hasattr(self, "_all_steps"):
            self._all_steps = {process: self.steps(process) for process in self.lines}
        return self._all_steps

    def impossible(self) -> list[tuple[Process, Event]]:
        """Deliveries after which the event they deliver was still to be published."""
        if not hasattr(self, "_impossible"):
            self._impossible = []
            if not self._can_be_ordered():
                after = {event: self.follows(event) for event in self.published}
                for process, steps in self.all_steps.items():
                    for at, (event, publishes) in enumerate(steps):
                        coming = next((known for known, is_publish in steps[at + 1 :] if is_publish), None)
                        if not publishes and coming is not None and event in after[coming]:
                            self._impossible.append((process, event))
        return self._impossible

    def _can_be_ordered(self) -> bool:
        """Take any step that can be taken, until none can."""
        left = {process: list(steps) for process, steps in self.all_steps.items()}
        known: set[Event] = set()
        moved = True
        while moved:
            moved = False
            for steps in left.values():
                while steps and (steps[0][1] or steps[0][0] in known):
                    event, publishes = steps.pop(0)
                    known |= {event} if publishes else set()
                    moved = True
        return not any(left.values())

    def past(self, event: Event) -> set[Event]:
        """Everything that an event follows, by a search backwards."""
        if event not in self._past:
            left_out = set(self.impossible())
            found: set[Event] = set()
            todo = [event]
            while todo:
                one = todo.pop()
                process = self.process(self.published[one])
                for known, publishes in self.all_steps[process]:
                    if (known, publishes) == (one, True):
                        break
                    if known not in found and (publishes or (process, known) not in left_out):
                        found.add(known)
                        todo.append(known)
            self._past[event] = found
        return self._past[event]

    def followers(self) -> int:
        """Deliveries of events whose publisher had published or delivered something before."""
        begins = {steps[0][0] for steps in self.all_steps.values() if steps and steps[0][1]}
        return sum(event not in begins for mine in self.first.values() for event in mine)

    # --- answers ---

    def answer(
        self, certain: int, on_absence: int = 0, *, at_stake: int, doubts: int = 0, unknown: bool = False
    ) -> Answer:
        """Broken beats unknown beats vacuous beats holds; with rows missing, what rests on absence does not count."""
        count = certain + (on_absence if self.complete else 0)
        if count:
            return "broken", count
        if unknown or not self.complete or doubts:
            return "unknown", 0
        return ("holds" if at_stake else "vacuous"), 0

    def deliveries(self) -> int:
        return sum(map(len, self.first.values()))

    def integrity(self) -> Answer:
        by_same_node = [row for row in self.republished if self._is_of_other_life(row)]
        wrong, outside, one_sum = len(self.republished) - len(by_same_node), 0, 0
        for event, row in self.published.items():
            wrong += row["node"] != event[1] or (row["inc"] != event[2] and not self.durable)
        for process, mine in self.first.items():
            for event, row in mine.items():
                origin = self.published[event]
                here = [s for s in self.stays[process] if s["grp"] == row["grp"]]
                if origin["dests"] is not None and row["node"] not in origin["dests"]:
                    wrong += 1
                elif not any(stay["first"] <= place_of(row) <= stay["last"] for stay in here):
                    outside += 1
                else:
                    wrong += less(row["t_true"], origin["t_true"]) or any(
                        differ(row[name], origin[name]) for name in ("payload_bytes", "payload_crc")
                    )
                one_sum += (row["payload_crc"] is None) != (origin["payload_crc"] is None)
        if any(row["t_true"] is None for row in self.published.values()):
            wrong += len(self.impossible())
        on_absence = len(self.unpublished) + len(by_same_node) + outside
        return self.answer(wrong, on_absence, at_stake=self.deliveries(), doubts=one_sum)

    def _is_of_other_life(self, row: Row) -> bool:
        """Was this published again by another incarnation of the node that published it?"""
        first = self.published[event_of(row)]
        return bool(row["node"] == first["node"] and row["inc"] != first["inc"])

    def no_duplicates(self) -> Answer:
        return self.answer(len(self.repeats), at_stake=self.deliveries())

    def by_publisher(self) -> dict[tuple[str, int, int], list[Event]]:
        publishers: dict[tuple[str, int, int], list[Event]] = {}
        for event in sorted(self.published):
            publishers.setdefault(event[:3], []).append(event)
        return publishers

    def fifo(self) -> Answer:
        inversions = leaps = at_stake = 0
        publishers = self.by_publisher()
        for process, line in self.lines.items():
            mine = self.first[process]
            founding = {stay["grp"] for stay in self.stays[process] if stay["founding"]}
            member = set(founding)
            free: dict[str, set[tuple[str, int, int]]] = {grp: set() for grp in self.groups if grp not in founding}
            reached: dict[tuple[str, int, int], int] = {}
            given_up: set[Event] = set()
            for row in line:
                if row["kind"] == "gap":
                    given_up |= {(row["grp"], i["pid"], i["inc"], i["seq"]) for i in row["ids"] or ()}
                elif row["kind"] == "join" and row["grp"] not in member:
                    member.add(row["grp"])
                    free[row["grp"]] = set()
                elif row["kind"] == "leave":
                    member.discard(row["grp"])
                elif row["kind"] == "deliver" and mine.get(event_of(row)) is row:
                    event = event_of(row)
                    events, publisher = publishers[event[:3]], event[:3]
                    at, before = events.index(event), reached.get(publisher, -1)
                    at_stake += at > 0
                    if at < before:
                        inversions += 1
                        continue
                    if event[0] in free and publisher not in free[event[0]]:
                        free[event[0]].add(publisher)
                    else:
                        for skipped in events[before + 1 : at]:
                            dests = self.published[skipped]["dests"]
                            meant = dests is None or process[0] in dests
                            leaps += meant and skipped not in given_up and skipped not in mine
                    reached[publisher] = at
        return self.answer(inversions + self.taken_back(), leaps, at_stake=at_stake)

    def taken_back(self) -> int:
        wrong = 0
        for process, mine in self.first.items():
            gaps = [row for row in self.lines[process] if row["kind"] == "gap"]
            for event, row in mine.items():
                wrong += any(
                    place_of(gap) < place_of(row)
                    and gap["grp"] == event[0]
                    and any((i["pid"], i["inc"], i["seq"]) == event[1:] for i in gap["ids"] or ())
                    for gap in gaps
                )
        return wrong

    def causal(self) -> Answer:
        late = never = doubts = 0
        for process, steps in self.all_steps.items():
            have: set[Event] = set()
            for event, publishes in steps:
                if not publishes:
                    for cause in self.past(event) - have:
                        have.add(cause)
                        owed = self.is_expected(cause, process)
                        if cause in self.first[process]:
                            late += 1
                        elif owed:
                            never += 1
                        elif owed is None:
                            doubts += 1
                have.add(event)
        return self.answer(late, never, at_stake=self.followers(), doubts=doubts)

    def optimistic_causal(self) -> Answer:
        late = 0
        for mine in self.first.values():
            events = list(mine)
            late += sum(any(event in self.past(early) for early in events[:at]) for at, event in enumerate(events))
        return self.answer(late + self.taken_back(), at_stake=self.followers())

    def total_order(self) -> Answer:
        wrong = comparable = 0
        for grp in {event[0] for event in self.published}:
            lines = [[event for event in mine if event[0] == grp] for _, mine in sorted(self.first.items())]
            comparable += sum(len(line) > 1 for line in lines) > 1
            disagree = sum(any(self._disagree(line, other) for other in lines[:at]) for at, line in enumerate(lines))
            wrong += disagree or self._has_cycle(lines)
        return self.answer(wrong, at_stake=comparable)

    def _disagree(self, one: list[Event], other: list[Event]) -> bool:
        common = [event for event in one if event in other]
        return common != [event for event in other if event in one]

    def _has_cycle(self, lines: list[list[Event]]) -> bool:
        """Take away what is first in every line it is in, until nothing is left, or nothing can be taken."""
        left = [list(line) for line in lines]
        while any(left):
            heads = {line[0] for line in left if line}
            free = {event for event in heads if not any(event in line[1:] for line in left)}
            if not free:
                return True
            left = [line[1:] if line and line[0] in free else line for line in left]
        return False

    def keys(self) -> Answer:
        wrong = 0
        own = {event: key_of(row) for event, row in self.published.items()}
        keyed = sum(key is not None for key in own.values())
        for grp in {event[0] for event in own}:
            mine = [key for event, key in own.items() if event[0] == grp and key is not None]
            wrong += len(mine) - len(set(mine))
        for process, line in self.lines.items():
            shown: dict[str, list[tuple[int, ...]]] = {}
            for event, row in self.first[process].items():
                key = key_of(row)
                if key is not None:
                    keyed += 1
                    wrong += differ(key, own[event])
                    wrong += key <= max(shown.get(event[0], [(-1,)]))
                    shown.setdefault(event[0], []).append(key)
            known: dict[str, list[tuple[int, ...]]] = {}
            for event, publishes in self.all_steps[process]:
                key = own[event]
                if key is not None:
                    wrong += publishes and key <= max(known.get(event[0], [(-1,)]))
                    known.setdefault(event[0], []).append(key)
            del line
        rows = len(own) + self.deliveries()
        bare = rows - keyed if keyed or self.run["level"] == "total" else 0
        return self.answer(wrong, at_stake=keyed, doubts=bare)

    def debts(self) -> list[tuple[Process, Event]] | None:
        """What is owed once the faults have stopped; None where the run does not say when that was."""
        if self.phases is None or any(row["t_true"] is None for row in self.published.values()):
            return None
        since, until, allowed = (self.phases[name] for name in ("live_from", "live_until", "deadline_ns"))
        owed = []
        for process, stays in self.stays.items():
            if not self.is_up(process):
                continue
            for stay in stays:
                if None in (stay["since"], stay["until"]) or stay["since"] > since:
                    continue
                last = until if stay["lasts"] else min(until, stay["until"] - allowed)
                for event, row in self.published.items():
                    meant = row["dests"] is None or process[0] in row["dests"]
                    if event[0] == stay["grp"] and meant and since <= row["t_true"] <= last:
                        owed.append((process, event))
        return owed

    def agreement(self) -> Answer:
        doubts = 0
        if self.durable or self.parameters.get("agreement") == "all":
            pairs = [(p, e) for p in self.lines if self.is_up(p) for e in self.published]
            debts: list[tuple[Process, Event]] | None = [(p, e) for p, e in pairs if self.is_expected(e, p)]
            doubts = sum(self.is_expected(e, p) is None and e not in self.first[p] for p, e in pairs)
        else:
            debts = self.debts()
        if debts is None:
            return "unknown", 0
        missing = [(process, event) for process, event in debts if event not in self.first[process]]
        enough = len(debts) - len(missing) >= self.run.get("reach_min", 1.0) * len(debts)
        return self.answer(0, 0 if enough else len(missing), at_stake=len(debts), doubts=doubts)

    def liveness(self) -> Answer:
        debts = self.debts()
        if debts is None:
            return "unknown", 0
        late = never = sometime = 0
        for process, event in debts:
            row = self.first[process].get(event)
            if row is None:
                never += 1
            elif row["t_true"] is None:
                sometime += 1
            else:
                late += row["t_true"] - self.published[event]["t_true"] > self.phases["deadline_ns"]
        promised, came = self.run.get("reach_min", 1.0) * len(debts), len(debts) - late - never
        wrong = (late, never) if came < promised else (0, 0)
        return self.answer(*wrong, at_stake=len(debts), doubts=came - sometime < promised)

    def bounds(self) -> Answer:
        measured = [row for row in self.rows_of("note") if row["value"] is not None and row["bound"] is not None]
        return self.answer(sum(row["value"] > row["bound"] for row in measured), at_stake=len(measured))

    # --- tickets ---

    def holds(self) -> tuple[list[Row], int]:
        """Every stretch of ownership, and how many publications nobody who held the ticket can have made."""
        drift = float(self.parameters.get("drift_max", DRIFT_MAX))
        stretches, wrong = [], 0
        for line in self.lines.values():
            for at, row in enumerate(line):
                if row["kind"] == "publish" and row["ticket"] is not None:
                    marks = [each for each in line[:at] if ends(each, row)]
                    last = marks[-1] if marks else {"kind": "none"}
                    wrong += last["kind"] != "ticket_acquire" or last["epoch"] != row["epoch"]
                if row["kind"] != "ticket_acquire":
                    continue
                end = next((each for each in line[at + 1 :] if ends(each, row)), None)
                ending = {} if end is None else end
                late = 0 if end is None or end["kind"] in ("crash", "ticket_acquire") else end["late_ns"] or 0
                time = FOREVER if end is None else ending["t_true"]
                stretches.append(
                    row | {
                        "until": None if time is None else time - int(late / (1 - drift)),
                        "until_clk": FOREVER if end is None else ending["t_clk"] - late,
                    }
                )  # fmt: skip
                stop = len(line) if end is None else line.index(end)
                uses = [
                    each for each in line[at + 1 : stop]
                    if each["kind"] == "publish" and (each["grp"], each["ticket"]) == (row["grp"], row["ticket"])
                ]  # fmt: skip
                if uses and time is not None:
                    wrong += less(time - int(late / (1 + drift)), uses[-1]["t_true"])
        return stretches, wrong

    def covers(self, stretches: list[Row]) -> dict[tuple[str, int], list[Row]]:
        """Stretches by every ticket that was acted for: an acquire row says for how many below its own."""
        tickets = self.parameters.get("tickets")
        found: dict[tuple[str, int], list[Row]] = {}
        for each in stretches:
            for below in range(each["value"] or 1):
                ticket = each["ticket"] - below
                ticket = ticket % tickets if isinstance(tickets, int) else ticket
                found.setdefault((each["grp"], ticket), []).append(each)
        return found

    def ticket_exclusivity(self) -> Answer:
        stretches, misuses = self.holds()
        timed = all(each["t_true"] is not None and each["until"] is not None for each in stretches)
        epsilon, tick = self.run.get("epsilon"), self.run.get("tick_ns")
        skew = FOREVER if epsilon is None or tick is None else epsilon * tick
        overlaps = possible = epochs = 0
        since, until = ("t_true", "until") if timed else ("t_clk", "until_clk")
        for group in self.covers(stretches).values():
            group.sort(key=lambda each: (each[since], each["ev"], each["node"], each["inc"]))
            for at, each in enumerate(group):
                earlier = sorted(group[:at], key=lambda other: other[until], reverse=True)[:1]
                for other in earlier:
                    both = min(each[until], other[until]) - each[since]
                    if (other["node"], other["inc"]) == (each["node"], each["inc"]):
                        continue
                    if timed:
                        overlaps += each[since] < other[until]
                    elif both > 0:
                        told = max(each[until], other[until]) < FOREVER
                        overlaps += both > skew and told
                        possible += not (both > skew and told)
        by_ticket: dict[tuple[str, int], list[Row]] = {}
        for each in stretches:
            by_ticket.setdefault((each["grp"], each["ticket"]), []).append(each)
        for group in by_ticket.values():
            epochs += self._shared_epochs(group)
            if all(each["t_true"] is not None for each in group):
                group.sort(key=lambda each: (each["t_true"], each["ev"], each["node"], each["inc"]))
                epochs += sum(
                    any(other["epoch"] > each["epoch"] for other in group[:at]) for at, each in enumerate(group)
                )
        return self.answer(epochs, misuses + overlaps, at_stake=len(stretches), unknown=not timed)

    def _shared_epochs(self, group: list[Row]) -> int:
        """Stretches with an epoch that another process had: the one whose rows come first in the list of processes."""
        wrong = 0
        for epoch in {each["epoch"] for each in group}:
            same = [each for each in group if each["epoch"] == epoch]
            same.sort(key=lambda each: (self.process(each), self._end_of(each)))
            wrong += sum((each["node"], each["inc"]) != (same[0]["node"], same[0]["inc"]) for each in same)
        return wrong

    def _end_of(self, stretch: Row) -> tuple[int, int]:
        line = self.lines[self.process(stretch)]
        later = [place_of(each) for each in line if place_of(each) > place_of(stretch) and ends(each, stretch)]
        return later[0] if later else (FOREVER, FOREVER)

    def ticket_coverage(self) -> Answer:
        tickets, k = self.parameters.get("tickets"), self.parameters.get("k")
        if self.phases is None or not isinstance(tickets, int) or not isinstance(k, int):
            return "unknown", 0
        repair = REPAIR_ROUNDS * int(self.parameters.get("ticket_round_ns", 0))
        back = {(row["node"], row["inc"] - 1) for row in self.rows_of("restart")}
        gone = [
            row for row in self.rows_of("crash", "leave")
            if row["kind"] == "leave" or row["reason"] == "wiped" or (row["node"], row["inc"]) not in back
        ]  # fmt: skip
        ended = [row["t_true"] for row in gone if row["t_true"] is not None]
        if any(sum(start <= other <= start + repair for other in ended) > k for start in ended):
            return "vacuous", 0
        holds = self.holds()[0]
        covers = self.covers(holds)
        bare = self._lost_tickets() + self._unserved(holds, tickets, self.phases["live_until"] - repair)
        for grp in self.groups:
            for ticket in range(tickets):
                ends_at = [each["until"] for each in covers.get((grp, ticket), [])]
                bare += not any(until is not None and until > self.phases["live_from"] for until in ends_at)
        return self.answer(0, bare, at_stake=tickets * len(self.groups))

    def _last_wish(self, row: Row, grp: str, before: int | None) -> Row | None:
        wishes = [
            each for each in self.rows_of("note")
            if each["reason"] in ("ticket_asked", "ticket_given_back") and each["grp"] == grp
            and (each["node"], each["inc"]) == (row["node"], row["inc"]) and (before is None or each["ev"] < before)
        ]  # fmt: skip
        return max(wishes, key=lambda each: each["ev"], default=None)

    def _lost_tickets(self) -> int:
        """Tickets that ended in the liveness phase without having been given back."""
        lost = 0
        for row in self.rows_of("ticket_release"):
            wish = self._last_wish(row, row["grp"], row["ev"])
            inside = less(self.phases["live_from"], row["t_true"]) and row["t_true"] <= self.phases["live_until"]
            lost += inside and (wish is None or wish["reason"] != "ticket_given_back")
        return lost

    def _unserved(self, holds: list[Row], tickets: int, asked_by: int) -> int:
        """Processes that asked in time and have no ticket then, though some are free."""
        ended = {(row["node"], row["inc"]) for row in self.rows_of("crash", "leave")}
        without = 0
        for grp in self.groups:
            lasting = [each for each in holds if each["grp"] == grp and less(self.phases["live_from"], each["until"])]
            if len({each["ticket"] for each in lasting}) >= tickets:
                continue
            served = ended | {(each["node"], each["inc"]) for each in lasting}
            for process in {
                (row["node"], row["inc"]) for row in self.rows_of("note") if row["reason"] == "ticket_asked"
            }:
                wish = self._last_wish({"node": process[0], "inc": process[1]}, grp, None)
                if wish is not None and wish["reason"] == "ticket_asked" and wish["t_true"] is not None:
                    without += process not in served and wish["t_true"] <= asked_by
        return without

    # --- views ---

    def views(self) -> Answer:
        rows = self.rows_of("view")
        if not rows:
            return ("vacuous" if self.parameters.get("view") == "full" else "unknown"), 0
        own = sum(row["node"] in (row["dests"] or ()) for row in rows)
        standing = [row for kind in ("view", "join", "leave", "crash") for row in self.rows_of(kind)]
        if self.phases is None or any(row["t_true"] is None for row in standing):
            return self.answer(own, at_stake=1, unknown=True)
        wrong = absent = 0
        for grp in self.groups:
            ghosts, missing = self._views_of(grp, [row for row in rows if row["grp"] == grp])
            wrong, absent = wrong + ghosts, absent + missing
        return self.answer(own, wrong + absent, at_stake=len(rows))

    def _views_of(self, grp: str, rows: list[Row]) -> tuple[int, int]:
        since, heal = self.phases["live_from"], self.phases["heal_at"]
        live = [p for p, stays in self.stays.items() if self.is_up(p)
                and any(stay["grp"] == grp and stay["lasts"] for stay in stays)]  # fmt: skip
        gone = self._gone(grp, {process[0] for process in live}, heal)
        ghosts = missing = 0
        for process in live:
            mine = sorted((row for row in rows if self.process(row) == process), key=place_of)
            ghosts += sum(node in gone for node in (mine[-1]["dests"] or ())) if mine else 0
        named = {
            node for row in rows for node in row["dests"] or ()
            if self.process(row) in live and node != row["node"] and not less(row["t_true"], since)
            and row["t_true"] is not None
        }  # fmt: skip
        for process in live if len(live) > 1 else []:
            steady = [stay for stay in self.stays[process] if stay["grp"] == grp and stay["lasts"]]
            missing += sum(
                process[0] not in named and stay["since"] is not None and stay["since"] <= since for stay in steady
            )
        for process, line in self.lines.items():
            stayed = line and self.is_up(process) and not any(row["kind"] == "leave" for row in line)
            missing += bool(stayed and process not in live and less(line[0]["t_true"], since))
        return ghosts, missing

    def _gone(self, grp: str, alive: set[int], heal: int) -> set[int]:
        """The nodes whose last stay in a group had ended before the faults stopped."""
        ended: dict[int, list[int]] = {}
        for process, stays in self.stays.items():
            for stay in stays:
                if stay["grp"] != grp or (stay["lasts"] and self.is_up(process)):
                    continue
                if stay["lasts"]:
                    crashes = [row["t_true"] for row in self.lines[process] if row["kind"] == "crash"]
                    until = FOREVER if not crashes or crashes[-1] is None else crashes[-1]
                else:
                    until = -1 if stay["until"] is None else stay["until"]
                ended.setdefault(process[0], []).append(until)
        return {node for node, times in ended.items() if max(times) < heal and node not in alive}


def event_of(row: Row) -> Event:
    return row["grp"], row["m_pid"], row["m_inc"], row["m_seq"]


def place_of(row: Row) -> tuple[int, int]:
    return row["inc"], row["ev"]


def key_of(row: Row) -> tuple[int, ...] | None:
    return None if row["k_hi"] is None else (row["k_hi"], row["k_mid"] or 0, row["k_lo"] or 0)


def differ(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one != other


def less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def ends(mark: Row, stretch: Row) -> bool:
    """Does this row change who owns the ticket of that one, at the same process?"""
    same = (mark["grp"], mark["ticket"]) == (stretch["grp"], stretch["ticket"])
    return mark["kind"] == "crash" or (mark["kind"] in TICKET_KINDS and same)


PROMISES = (
    "integrity", "no_duplicates", "fifo", "causal", "optimistic_causal", "total_order", "keys", "agreement", "liveness",
    "ticket_exclusivity", "ticket_coverage", "bounds", "views",
)  # fmt: skip


def judge(directory: Path, promises: tuple[str, ...] = PROMISES) -> dict[str, Answer]:
    """Judge the run in a directory by every promise."""
    run = Plain(directory)
    return {promise: getattr(run, promise)() for promise in promises}
