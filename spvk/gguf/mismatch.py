"""The one form of every GGUF complaint: `FILE: FIELD: found X, expected Y`."""

from __future__ import annotations

from spvk.errors import GGUFError


def plain(text: object, limit: int = 80) -> str:
    """Text that is safe on one terminal line: names and paths come from outside and may hold anything."""
    shown = str(text)
    shown = shown if shown.isprintable() else ascii(shown)
    return shown if len(shown) <= limit else shown[:limit] + "..."


def mismatch(path: object, field: str, found: object, expected: str) -> GGUFError:
    """The error to raise for `field` of the file at `path`."""
    where = f"{plain(path, 4096)}: {plain(field, 200)}"
    return GGUFError(f"{where}: found {plain(found, 200)}, expected {plain(expected, 400)}")
