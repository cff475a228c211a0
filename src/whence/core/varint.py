"""Variable-length integers: as few bytes as they need, seven bits each, lowest first; the highest bit says that more
follows."""

from collections.abc import Iterable

from msgspec import Struct

BYTES_MAX = 9
"""63 bits; a longer number is never written."""


def put(into: bytearray, number: int) -> None:
    """Append a number that is not negative."""
    while number > 127:
        into.append(number & 127 | 128)
        number >>= 7
    into.append(number)


def packed(numbers: Iterable[int]) -> bytes:
    """Return the bytes of numbers, one after another."""
    into = bytearray()
    for number in numbers:
        put(into, number)
    return bytes(into)


class Reader(Struct, eq=False):
    """Reads numbers from bytes that a peer sent. Raises ValueError if there is no number."""

    _data: bytes
    at: int = 0
    """The position up to which it has read."""

    def take(self) -> int:
        """Return the next number."""
        data, at = self._data, self.at
        if at >= len(data):
            raise ValueError("bytes end where a number is expected")
        number = data[at]
        at += 1
        if number > 127:
            number &= 127
            shift = 7
            while True:
                if at >= len(data) or shift >= 7 * BYTES_MAX:
                    raise ValueError("a number does not end")
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
        self.at = at
        return number

    def below(self, bound: int) -> int:
        """Return the next number, which must be below a bound."""
        data, at = self._data, self.at
        if at < len(data) and data[at] < 128:  # most numbers are small
            number = data[at]
            self.at = at + 1
        else:
            number = self.take()
        if number >= bound:
            raise ValueError(f"a number is {number}, and must be below {bound}")
        return number

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.bytes(len(self._data) - self.at)

    def bytes(self, size: int) -> bytes:
        """Return the next `size` bytes as they are."""
        end = self.at + size
        if end > len(self._data):
            raise ValueError("bytes end too early")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def more(self) -> bool:
        """Tell whether anything is left."""
        return self.at < len(self._data)

    def end(self) -> None:
        """Check that nothing is left. Raises ValueError."""
        if self.at < len(self._data):
            raise ValueError("there is more than was announced")
