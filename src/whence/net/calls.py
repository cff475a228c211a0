"""Why a call failed, as far as it matters to whoever called."""

import ssl

from whence.errors import JoinError


class OwnAddressError(JoinError):
    """Who answers at an address is this process itself."""


def is_refusal(failed: JoinError) -> bool:
    """Tell whether a call failed because somebody who is there does not want to talk."""
    return isinstance(failed.__cause__, JoinError | ssl.SSLError)
