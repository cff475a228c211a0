"""Tickets: who may publish in a cluster. At most one process acts for a ticket at any instant, whatever fails.

Read in this order: records (the nouns), witness (who remembers), lease (when one may act), change (what must be
registered before it is acted upon), walk (how the dead are closed), seat (a coordinator), joining and founding (how a
seat is had), desk (all of it for one cluster in one process). Source: tickets_twolayer section 4.
"""
