"""What `import whence` gives, and what the core needs to be imported."""

import subprocess
import sys

import whence

PUBLIC = [
    "BackPressureError",
    "Batch",
    "ClosedError",
    "Delivery",
    "DetectorSettings",
    "EventId",
    "EventsLostError",
    "Group",
    "InternalError",
    "JoinError",
    "LateEvent",
    "LeaseSuspendedError",
    "LeaveTimeoutError",
    "LeftOutError",
    "Level",
    "LimitError",
    "Member",
    "NameTakenError",
    "NetSettings",
    "Node",
    "NotCoordinatorError",
    "NotMemberError",
    "OutcomeUnknownError",
    "PayloadError",
    "Receipt",
    "SettingError",
    "SlowConsumerError",
    "StalledError",
    "StorageError",
    "TraceError",
    "UsageError",
    "WhenceError",
    "__version__",
    "join",
    "JoinTimeoutError",
    "QuorumError",
    "Removed",
    "RemovedError",
    "View",
    "run",
]
"""The names people may rely on. Add here what is added there; removing one breaks somebody."""

NEEDED = """
import sys
import whence.core.registry, whence.wire.codec
foreign = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in foreign if not name.startswith(("_", "a1_"))))
"""


def test_the_public_names_are_these() -> None:
    assert sorted(whence.__all__) == sorted(PUBLIC)
    assert all(hasattr(whence, name) for name in PUBLIC)


def test_the_core_and_the_wire_need_nothing_but_msgspec() -> None:
    """In a process of its own: here, the tests have imported far more."""
    command = [sys.executable, "-c", NEEDED]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"})
    assert set(loaded.stdout.split()) - {"typing_extensions"} == {"msgspec", "whence"}, "msgspec may use one more"
