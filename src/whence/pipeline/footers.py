"""What footers of Parquet files tell of a log's rows: that all numbers are there and in range, and from what to what.

Where they suffice, nobody need look at each row for reasons to reject it, nor read columns for that alone.
"""

from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from whence.pipeline.logs import BITS_OF, INC, K_HI, K_LO, KEY, KIND, PID, SEQ, TRACE_NAMES, K, L, R

_NUMBERS: Final = (PID, INC, SEQ, R, L, K, *KEY)

Ranges: TypeAlias = dict[str, Any]
"""By column, the statistics of a row group, with `min` and `max`."""


def ranges_of_numbers(footer: pq.FileMetaData) -> list[Ranges] | None:
    """Return the ranges of a log's numbers in each row group, if all rows have them all and none is out of its range.

    None where footers do not show that, or where rows may be other than events with numbers of their own.
    """
    kinds = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    numbers = [name for name in _NUMBERS if name in kinds]
    is_whole = all(pa.types.is_signed_integer(kinds[name]) for name in numbers)
    if not is_whole or not {PID, SEQ, L} <= set(numbers) or (K_HI in kinds) != (K_LO in kinds):
        return None
    if KIND in kinds or set(kinds) >= TRACE_NAMES:
        return None
    places = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    found = []
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        known = {name: group.column(places[name]).statistics for name in numbers}
        if not all(each and each.has_min_max and each.null_count == 0 for each in known.values()):
            return None
        if any(known[name].min < 0 or known[name].max >> BITS_OF.get(name, 63) for name in numbers):
            return None
        found.append(known)
    return found
