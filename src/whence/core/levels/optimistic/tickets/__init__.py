"""Tickets: who may publish in a cluster. At most one process acts for a ticket at any instant, whatever fails.

Read in this order: records (the nouns), witness (who remembers and lends leases), lease and authority (when a
coordinator may act), registration (what must be registered before it is acted upon), walk (how the dead are closed),
session (a coordinator: ring, exclusion, grants, witnesses), applicant and founding (how a ticket is obtained), manager
(all of it for one cluster in one process). Source: docs/papers/optimistic.md 4.
"""
