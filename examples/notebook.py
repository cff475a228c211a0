"""The door without asyncio: two members in an ordinary script.

python examples/notebook.py
"""

from whence import blocking


def main() -> None:
    """Publish on one member, take on another."""
    with blocking.join(1) as one, blocking.join(2, contacts=[one.address]) as two:
        here, there = one.open("alps"), two.open("alps")
        here.gathered(2)
        there.gathered(2)
        for word in ("ordered", "group", "communication"):
            print("published", tuple(here.publish(word.encode())))
        for delivery in there.take(3, timeout_s=30):
            print(f"delivered {delivery.payload.decode()!r} from {delivery.sender} at position {delivery.position}")


if __name__ == "__main__":
    main()
