"""Living groups: views decided by Paxos, marks, flush before deciding. The part that mesh groups of all levels share.

Source: docs/papers/views.md.
"""
