"""The local engine: tables of this process, on DuckDB, in the words of PySpark's DataFrame API.

It speaks as much of that API as the rules of the pipeline use, and means the same by it: nulls come first, a cast of
what cannot be is an error, a struct compares by its fields. A frame is a query; `persist` and `localCheckpoint` make it
a table. What it does not know is refused by name (NotLocal), and Spark does it instead.
"""
