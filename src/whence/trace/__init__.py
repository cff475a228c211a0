"""What happened in a run: one row per event of a process, one schema for simulator, live nodes and pipeline."""
