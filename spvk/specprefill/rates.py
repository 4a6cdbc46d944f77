"""The records behind the cost model: one small JSON file, by device and model file."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from spvk.errors import SpvkError
from spvk.specprefill.cost import Rates, Record, Work, fit

VERSION = 1
MOST = 64  # records kept of each kind: older ones go
WHETHER = {"preset", "mode", "positions", "dense_layers", "gap_decay", "min_tokens", "min_confidence",
           "spec_throughput", "break_even", "break_even_safety"}  # settings that do not say how much is kept
EDGE = 1 << 20  # bytes read at each end of a model file


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Hexadecimal SHA-256 of a file's size, first and last MiB: enough to tell model files apart, in no time.

    Raises SpvkError naming a file that cannot be read.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(EDGE)
            file.seek(max(0, size - EDGE))
            tail = file.read(EDGE)
    except OSError as error:
        raise SpvkError(f"{path}: {error.strerror or error}, expected a model file") from None
    return hashlib.sha256(size.to_bytes(8, "little") + head + tail).hexdigest()


def rates_path(folder: str | os.PathLike[str]) -> Path:
    """Where the records are kept in the cache directory."""
    return Path(folder) / "rates.json"


class RateStore:
    """Records in `folder`/rates.json. A file that cannot be read counts as empty, one that cannot be
    written is left: a cache is no reason to fail. `device` is any name of device and driver together."""

    def __init__(self, folder: str | os.PathLike[str], device: str) -> None:
        self.path, self.device = rates_path(folder), device

    def add_prefill(self, target: str, work: Work, ms: float) -> None:
        """The target (its fingerprint) did `work` in `ms`, dense or sparse."""
        self._append(f"{self.device}/{target}/prefill", [*work, ms])

    def add_score(self, draft: str, work: Work, ms: float) -> None:
        """The draft scored in `ms`, the choice of the tokens included."""
        self._append(f"{self.device}/{draft}/score", [*work, ms])

    def add_kept(self, target: str, draft: str, settings_key: str, fraction: float) -> None:
        """A sparse run kept `fraction` of its prompt under the policy that `settings_key` names."""
        self._append(f"{target}/{draft}/{settings_key}/kept", [fraction])

    def rates(self, target: str, draft: str, settings_key: str) -> Rates:
        """What the records say of this pair on this device."""
        entries = self._read()
        prefill, score = (_records(entries.get(f"{self.device}/{model}/{phase}", []))
                          for model, phase in ((target, "prefill"), (draft, "score")))
        kept = [row[0] for row in entries.get(f"{target}/{draft}/{settings_key}/kept", []) if len(row) == 1]
        longest = max((r.work.tokens for r in (*prefill, *score)), default=None)
        return Rates(fit(prefill), fit(score), tuple(kept), longest=longest)

    def _append(self, key: str, row: list[float]) -> None:
        entries = self._read()
        entries[key] = [*entries.get(key, []), [float(x) for x in row]][-MOST:]
        _replace(self.path, json.dumps({"version": VERSION, "records": entries}))

    def _read(self) -> dict[str, list[list[float]]]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        known = isinstance(data, dict) and data.get("version") == VERSION
        records = data.get("records") if known else None
        if not isinstance(records, dict):
            return {}
        return {key: [row for row in rows if _is_row(row)] for key, rows in records.items()
                if isinstance(rows, list)}


def settings_key(settings: Any) -> str:
    """A name for all settings on which the kept fraction depends: equal settings, equal names."""
    values = {name: value for name, value in settings.as_dict().items() if name not in WHETHER}
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _records(rows: list[list[float]]) -> list[Record]:
    return [Record(Work(*row[:3]), row[3]) for row in rows if len(row) == 4]


def _is_row(row: Any) -> bool:
    """Whether a run can have given these numbers: others would overflow in the fit."""
    return isinstance(row, list) and all(
        type(x) in (int, float) and (x == 0 or 1e-6 < x < 1e15) for x in row
    )


def _replace(path: Path, text: str) -> None:
    """Write a whole file at once, so that a reader never sees half of it."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink()
