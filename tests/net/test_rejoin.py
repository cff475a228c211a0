"""A process that was removed joins anew with the directory it had: nothing of the former member counts for it."""

from pathlib import Path
from typing import Any

import pytest

from tests.net.live import DEADLINE_S, within
from tests.net.test_living import BOTH, cluster, quiet
from whence.errors import RemovedError


@BOTH
def test_a_bundle_that_was_taken_in_part_before_the_removal_leaves_out_nothing_after_it(
    kind: dict[str, Any], tmp_path: Path
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, kind, durable=True) as made:
            one, two, three = await made.found(1, 2, 3)
            await quiet([one, two, three])
            assert three.reader is not None
            three.reader.cancel()
            await three.group.publish_many([b"a", b"b", b"c"])
            taken = [await three.group.next(DEADLINE_S) for _ in range(2)]
            assert [delivery.payload for delivery in taken] == [b"a", b"b"]
            await one.group.remove(3, DEADLINE_S)
            with pytest.raises(RemovedError):
                await three.group._driver.until(lambda: False)
            await three.kill()
            (three,) = await made.come_back(3)
            await three.group.publish_many([b"d", b"e", b"f"])
            await three.has(b"d", b"e", b"f")
            assert three.taken[-3:] == [b"d", b"e", b"f"]

    within(main())
