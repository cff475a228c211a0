"""Traces and publishers' logs through Spark: judged, measured, merged into one order, swept and reported.

The way of a trace: session -> events (what can be read, the rest set aside) -> deliveries (who published, delivered
and belonged) -> promises, metrics -> verify, report. The way of a log: logs -> merge or stream. Everything between
reading and writing is a function from DataFrames to a DataFrame, named for the table it returns.
"""
