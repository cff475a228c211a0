"""Files beside logs that are not read are told of, so that nobody takes them for merged."""

from pathlib import Path

from whence.pipeline.logs import log_files, unread_files


def test_files_that_are_not_called_like_logs_are_named_and_unfinished_ones_are_passed_over(tmp_path: Path) -> None:
    for name in ("a.ndjson", "b.parquet", "UP.NDJSON", "log.txt", "noext", "_temporary.ndjson", ".c.ndjson"):
        (tmp_path / name).write_text("{}\n", encoding="utf-8")
    assert [file.name for file in log_files(tmp_path)] == ["a.ndjson", "b.parquet"]
    assert [file.name for file in unread_files(tmp_path)] == ["UP.NDJSON", "log.txt", "noext"]
    assert unread_files(tmp_path / "a.ndjson") == []
