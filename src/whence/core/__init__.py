"""What a member decides. Pure: no I/O, no clock, no randomness of its own; the driver gives it both time and chance."""
