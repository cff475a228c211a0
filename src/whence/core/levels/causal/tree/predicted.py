"""Predicted coding: a header contains only what the other end cannot predict.

The group and the route decide the id pattern. So a template (group, hops, id pattern) is written once per session, and
then named by its index. Each number is predicted to be one more than the last that the link carried for its pair; only
others are written. Of the dependencies, only those above what the link carried are written: the numbers of earlier
messages are implied. What the other end sent is not sent back: it was part of that end's own durable past.
That needs one rule: a header in this coding implies that its sender has processed everything below the numbers that it
was given itself. A sender with a gap there sends whole headers. With f >= 2 everything is sent back, because the fence
reads all dependencies.
Costs: without faults, one byte of flags and one of template; session and turn too, unless links are ordered.
Source: LoCaMu, section 7.3.
"""

from collections.abc import Iterable

from whence.core.levels.causal.tree.coding import name_bytes
from whence.core.levels.causal.tree.headers import NODES, NUMBER_END, PREDICTED, Header
from whence.core.levels.causal.tree.id_patterns import IdPattern, Numbers
from whence.core.levels.causal.tree.pairs import NODE_BITS, PairNumbers, pair
from whence.core.levels.causal.tree.sessions import HeaderTemplate, LinkState, SessionCoding
from whence.core.levels.causal.tree.settings import TreeSettings
from whence.core.levels.causal.tree.state import Record, State
from whence.core.varint import Reader, put

NEW_TEMPLATE, SURPRISES, NEWS = 1 << 3, 1 << 4, 1 << 5
WRITTEN = NEW_TEMPLATE | SURPRISES | NEWS

TEMPLATES_MAX = 1024
"""Templates remembered per session; further ones are written in full."""


class PredictedCoding(SessionCoding):
    """Headers as the difference to a prediction that both ends make."""

    form = PREDICTED

    def __init__(self, state: State, settings: TreeSettings) -> None:
        super().__init__(state, settings)
        self._shares = state.place.f == 1
        """Whether what the other end sent is left out. With f >= 2 it is not: the fence reads all dependencies."""
        self._cuts = self._pruned or self._shares
        """Whether first copies contain only what is near the receiver. Where something is left out, nobody may replay
        them anyway. Whole headers may be replayed, and are cut only if `replay` is off."""
        self._epoch = state.place.overlay.epoch

    def encode(self, record: Record, target: int, link: LinkState, into: bytearray) -> int:
        """Write what the receiver cannot predict."""
        flags = 0
        pattern, numbers, known = record.pattern, record.numbers, link.known
        if self._cuts:
            pattern, pick = pattern.cuts.get(target) or self._state.patterns.cut(pattern, target)
            if pick is not None:
                numbers = pick(numbers)
        index = link.template_index.get((record.group, record.h, pattern))
        if index is None:
            flags |= NEW_TEMPLATE
            self._begin_template(record, pattern, link, into)
        elif index < 128:
            into.append(index)
        else:
            put(into, index)
        news = None if link.changes == record.changes else self._news(record, target, link)
        link.changes = record.changes_after
        written = self._pack_news(news, known) if news else b""
        predicted = [value + 1 for value in pattern.of(known)]
        if numbers == tuple(predicted):
            known.update(zip(pattern.keys, numbers))  # noqa: B905 - hot, and one length by construction
        else:
            flags |= SURPRISES
            _put_surprises(into, predicted, numbers)
            _raise(known, pattern.keys, numbers)
        if news:
            flags |= NEWS
            into += written
            _raise(known, news, news.values())  # after a fence, a message may follow its own numbers
        self.cost.add(len(into) + (record.name_bytes or name_bytes(record)))
        return flags

    def _begin_template(self, record: Record, pattern: IdPattern, link: LinkState, into: bytearray) -> None:
        _put_template(into, record.group, record.h, pattern)
        _begin(link.known, pattern)
        if len(link.template_index) < TEMPLATES_MAX:
            link.template_index[record.group, record.h, pattern] = len(link.template_index)

    def _news(self, record: Record, target: int, link: LinkState) -> PairNumbers:
        """Return the dependencies above what the link has carried, in either direction."""
        known, deps = link.known, record.deps
        came = self._incoming.get(target) if self._shares else None
        known_there = {} if came is None else came.known
        pairs = self._place.overlay.pairs(target) if self._cuts else self._place.pairs
        return {
            key: value
            for key in self._state.changes(link.changes, record.changes)
            if (value := deps.get(key, 0)) > known.get(key, 0) and value > known_there.get(key, 0) and key in pairs
        }

    def _pack_news(self, news: PairNumbers, known: PairNumbers) -> bytearray:
        """Return numbers as differences to what the link has carried."""
        into, position_of = bytearray(), self._place.position_of
        put(into, len(news))
        for key, value in news.items():
            put(into, position_of[key])
            put(into, value - known.get(key, 0))
        return into

    def decode(self, peer: int, link: LinkState, data: bytes, at: int) -> Header:
        """Predict the header, and correct it by what is written."""
        flags, templates, reader = data[0], link.templates, None
        if flags & WRITTEN or len(data) != at + 1:
            reader = Reader(data, at)
            template = (
                self._take_template(peer, link, reader)
                if flags & NEW_TEMPLATE
                else templates[reader.below(len(templates))]
            )  # fmt: skip
        elif (index := data[at]) < 128 and index < len(templates):
            template = templates[index]
        else:
            raise ValueError("a header names no template that the link has carried")
        pattern, known = template.pattern, link.known
        recent = link.pending if link.latest is None else self._not_merged(link, link.latest)
        predicted = [value + 1 for value in pattern.of(known)]
        if reader is not None:
            if flags & SURPRISES:
                for _ in range(reader.below(len(predicted) + 1)):
                    place = reader.below(len(predicted))
                    predicted[place] = reader.below(NUMBER_END)
            if flags & NEWS:
                self._take_news(peer, known, recent, reader)
            reader.end()
        numbers, shares = tuple(predicted), self._shares
        number = numbers[template.at] if template.at >= 0 else 0
        deps = recent if shares else known.copy()
        header = Header(
            template.group, self._epoch, peer, template.h, None, {}, deps, pattern, numbers, number, not shares,
            self._cuts,
        )  # fmt: skip
        if shares:
            link.latest = header
        if flags & (SURPRISES | NEWS):
            _raise(known, pattern.keys, numbers)
        else:
            known.update(zip(pattern.keys, numbers))  # noqa: B905 - hot, and one length by construction
        return header

    def _not_merged(self, link: LinkState, latest: Header) -> PairNumbers:
        """Return what the link carried since a header was last merged into the past; the caller adds the next news."""
        assert latest.pattern is not None
        recent = link.pending.copy()
        _raise(recent, latest.pattern.keys, latest.numbers)
        link.pending = recent
        return recent

    def _take_news(self, peer: int, known: PairNumbers, recent: PairNumbers, reader: Reader) -> None:
        listed = self._place.overlay.listed_pairs(peer)
        for _ in range(reader.below(len(listed) + 1)):
            key = listed[reader.below(len(listed))]
            known[key] = recent[key] = known.get(key, 0) + reader.below(NUMBER_END)

    def merged(self, header: Header, record: Record) -> None:
        """Note that a header was merged into the past.

        What the link carried before it need not be looked at again. What it changed need not be sent back, except the
        numbers given here.
        """
        link = self._incoming.get(header.last)
        if link is not None and link.latest is header:
            link.latest = None
            if link.pending:
                link.pending = {}
        back = self._outgoing.get(header.last)
        if back is not None and back.changes == record.changes != record.changes_after:
            back.changes = record.changes_after - len(record.targets)

    def _take_template(self, peer: int, link: LinkState, reader: Reader) -> HeaderTemplate:
        group, h = reader.below(self._place.overlay.group_count), reader.below(256)
        keys: dict[int, None] = {}
        possible = self._place.overlay.pairs(peer)
        for _ in range(reader.below(self._entries_max)):
            source = reader.below(NODES)
            if any(key >> NODE_BITS == source for key in keys):
                raise ValueError("a template names a forwarder twice")
            for _ in range(reader.below(self._entries_max)):
                key = pair(source, reader.below(NODES))
                if key not in possible:
                    raise ValueError("a template names a pair that is not near its sender")
                keys[key] = None
        if not any(key >> NODE_BITS == peer for key in keys):
            raise ValueError("a header without its forwarder's numbers")
        pattern = self._state.patterns.of(tuple(keys))
        template = HeaderTemplate(group, h, pattern, pattern.place_of(peer, self._place.me))
        _begin(link.known, pattern)
        if len(link.templates) < TEMPLATES_MAX:
            link.templates.append(template)
        return template


def _raise(numbers: PairNumbers, keys: Iterable[int], values: Iterable[int]) -> None:
    """Raise numbers to values that are higher."""
    value_of = numbers.get
    for key, value in zip(keys, values):  # noqa: B905 - hot, and one length by construction
        if value > value_of(key, 0):
            numbers[key] = value


def _begin(numbers: PairNumbers, pattern: IdPattern) -> None:
    """Give all keys of a pattern an entry, so that IdPattern.of can pick them at once."""
    for key in pattern.keys:
        numbers.setdefault(key, 0)


def _put_surprises(into: bytearray, predicted: list[int], numbers: Numbers) -> None:
    surprises = [at for at, number in enumerate(numbers) if number != predicted[at]]
    put(into, len(surprises))
    for at in surprises:
        put(into, at)
        put(into, numbers[at])


def _put_template(into: bytearray, group: int, h: int, pattern: IdPattern) -> None:
    put(into, group)
    put(into, h)
    put(into, len(pattern.rows))
    for source, targets in pattern.rows:
        put(into, source)
        put(into, len(targets))
        for target in targets:
            put(into, target)
