"""A study's folder:

    study.json     what was asked, on which machine
    runs.jsonl     a line a run, as it ended: the raw data, from which everything else is made
    runs/KEY/      what the run itself left: config, metrics, evaluations, summary, log
    table.md, *.png

A bench that was interrupted goes on where it was when it is started with the same settings and the same folder: runs
that have a line are not made again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spreeze.errors import ConfigError
from spreeze.metrics.lines import append_line
from spreeze.tuning.hardware import find_machine

Record = dict[str, Any]


class Results:
    def __init__(self, folder: Path, asked: dict[str, Any]) -> None:
        """Raises ConfigError for a folder of another study."""
        self.folder = folder
        self._path = folder / "runs.jsonl"
        told = folder / "study.json"
        asked = json.loads(json.dumps(asked))
        if told.is_file():
            before = json.loads(told.read_text(encoding="utf-8"))["asked"]
            if before != asked:
                names = sorted(name for name in {*before, *asked} if before.get(name) != asked.get(name))
                raise ConfigError(
                    f"--out {folder}: holds a study with other settings ({', '.join(names)}); give them again to go "
                    "on with it, or another folder"
                )
        elif folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(f"--out {folder}: is not empty and holds no study; give another folder")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            document = {"asked": asked, "machine": find_machine().as_json()}
            told.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        self.records = self._read()

    def _read(self) -> list[Record]:
        """Whole lines; what a killed bench left half is cut off, so that the next line begins on its own."""
        if not self._path.is_file():
            return []
        data = self._path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._path.write_bytes(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def find(self, key: str) -> Record | None:
        return next((record for record in self.records if record["key"] == key), None)

    def add(self, record: Record) -> None:
        append_line(self._path, record)
        self.records.append(record)

    def run_dir(self, key: str) -> Path:
        return self.folder / "runs" / key

    @property
    def spent_s(self) -> float:
        return sum(record["took_s"] for record in self.records)
