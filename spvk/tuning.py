"""What `spvk tune` found on a device: which variant of each kernel is fastest there.

A choice is a name or number that a launcher asks its profile for (Profile.choice); without a measurement the
launcher's own default stands. The file lies beside the pipeline cache and counts only for the device, driver
and shaders that it was measured with.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Mapping

from . import shaders
from .errors import SpvkError
from .kernels.profile import Profile
from .vulkan import Device
from .vulkan.device import cache_dir

VERSION = 1
# Candidates by name of the choice, the default first.
CPU_CHOICES = {
    "matmul.tile": ("16x8", "16x4", "8x8", "32x4"),
    "matvec.wide": ("8", "4", "2"),
    "attention.rows": ("32", "16"),
    "gated_delta.columns": ("16", "8"),
}
GPU_CHOICES = {
    "matvec.lanes": ("64", "32", "16", "8"),
    "attention.tile": ("tiles", "rows"),
    "gated_delta.columns": ("2", "4", "8"),
}


def choices_for(profile: Profile) -> dict[str, tuple[str, ...]]:
    """What can be chosen on a device of this class."""
    return CPU_CHOICES if profile.name == "cpu" else GPU_CHOICES


def path_for(device: Device) -> Path:
    return cache_dir() / f"tuning-{device.info.cache_key}.json"


def shaders_digest() -> str:
    """Names the shaders that a measurement was made with."""
    return hashlib.sha256("".join(m.sha256 for m in shaders.manifest().values()).encode()).hexdigest()


def save(device: Device, kept: Mapping[str, str]) -> Path:
    """Write the answers, choice by choice. Raises SpvkError where the cache directory cannot be written."""
    path = path_for(device)
    text = json.dumps({"version": VERSION, "shaders": shaders_digest(), "choices": dict(kept)}, indent=1)
    part = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text + "\n")
        part.replace(path)
    except OSError as error:
        raise SpvkError(f"{path}: {error.strerror}, expected a cache directory that can be written") from None
    return path


def tuned(device: Device, profile: Profile) -> Profile:
    """The profile with what was measured on this device, if it was with these shaders."""
    try:
        data = json.loads(path_for(device).read_text(encoding="utf-8"))
        known = data["version"] == VERSION and data["shaders"] == shaders_digest()
        stored = sorted(data["choices"].items()) if known else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return profile
    valid = choices_for(profile)
    kept = tuple((n, v) for n, v in stored if v in valid.get(n, ()))
    return replace(profile, choices=kept)
