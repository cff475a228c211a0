"""A shared board at level causal: an answer never appears before what it answers, on any screen.

python examples/board.py
"""

import asyncio
import tempfile
from pathlib import Path

from msgspec import Struct

import whence

PEOPLE = ["Ada", "Ben", "Cleo"]


class Card(Struct):
    """What somebody pinned to the board, perhaps as an answer."""

    author: str
    text: str
    answers: str | None = None


async def sit(group: whence.Group, name: str, screen: list[Card], until: int) -> None:
    """Read the board; answer everybody else's first card as soon as it is seen."""
    board = group.typed(Card)
    await board.publish(Card(name, f"{name} was here"))
    async for card, delivery in board:
        screen.append(card)
        if card.answers is None and card.author != name and delivery.sender != group.pid:
            await board.publish(Card(name, f"hello {card.author}", answers=card.text))
        if len(screen) == until:
            return


async def main() -> None:
    """Let three people write and answer, and check every screen."""
    with tempfile.TemporaryDirectory() as data:
        everyone = range(len(PEOPLE))
        async with (
            whence.join(0, data=Path(data) / "0") as ada,
            whence.join(1, data=Path(data) / "1", contacts=[ada.address]) as ben,
            whence.join(2, data=Path(data) / "2", contacts=[ada.address]) as cleo,
        ):
            groups = [await node.open("board", "causal") for node in (ada, ben, cleo)]
            screens: list[list[Card]] = [[] for _ in everyone]
            cards = len(PEOPLE) + len(PEOPLE) * (len(PEOPLE) - 1)
            await asyncio.gather(
                *[sit(group, name, screen, cards) for group, name, screen in zip(groups, PEOPLE, screens, strict=True)]
            )
    for name, screen in zip(PEOPLE, screens, strict=True):
        print(f"{name}'s screen:")
        seen: list[str] = []
        for card in screen:
            if card.answers is not None and card.answers not in seen:
                raise SystemExit(f"broken: {card.text!r} came before {card.answers!r}")
            seen.append(card.text)
            print(f"   {card.author:>5}: {card.text}" + (f"   (to {card.answers!r})" if card.answers else ""))
    print("every answer came after what it answers")


if __name__ == "__main__":
    whence.run(main())
