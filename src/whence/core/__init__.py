"""What a member decides. Pure: no I/O, no clock, no randomness of its own: `now` and random numbers are passed in."""
