"""Our bare loop against SimPy, on the tree broadcast: 1,000 nodes, 2,000 messages, 1,998,000 hops.

Goals: at least 10 times as many hops per second as idiomatic SimPy (processes and stores), at least 1.5 times as many
as SimPy with timeouts and callbacks. All three see the same hops and the same sum of arrival times.
"""

from functools import partial

from _common import arguments, finish, interleaved
from _tree import MESSAGES, NODES, Engine, microseconds_per_hop, on_simpy, on_simpy_callbacks, on_whence

IDIOMATIC_MIN = 10.0
CALLBACKS_MIN = 1.5
CHECKED_MESSAGES = 20


def main() -> None:
    """Run all engines in turn and compare them."""
    parser = arguments(__doc__)
    parser.add_argument("--messages", type=int, help=f"messages to broadcast (default {MESSAGES})")
    given = parser.parse_args()
    messages = given.messages or (CHECKED_MESSAGES if given.quick else MESSAGES)
    engines: dict[str, Engine] = {"whence": on_whence, "simpy": on_simpy, "simpy_callbacks": on_simpy_callbacks}

    results = {engine(min(messages, CHECKED_MESSAGES)) for engine in engines.values()}
    assert len(results) == 1, f"the engines simulate different things: {results}"

    costs = interleaved(
        given.repeat or (1 if given.quick else 3),
        {name: partial(microseconds_per_hop, engine, messages) for name, engine in engines.items()},
    )
    idiomatic, callbacks = costs["simpy"] / costs["whence"], costs["simpy_callbacks"] / costs["whence"]
    finish(
        "loop",
        {
            "messages": messages,
            "hops": messages * (NODES - 1),
            "us_per_hop": {name: round(cost, 3) for name, cost in costs.items()},
            "ratio_idiomatic": round(idiomatic, 2),
            "ratio_callbacks": round(callbacks, 2),
        },
        {"idiomatic": idiomatic >= IDIOMATIC_MIN, "callbacks": callbacks >= CALLBACKS_MIN},
        quick=given.quick,
    )


if __name__ == "__main__":
    main()
