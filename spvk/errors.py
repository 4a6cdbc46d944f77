"""Errors that the command line reports as one line and exit status 2."""

from __future__ import annotations


class SpvkError(Exception):
    """Bad input or an unusable machine; the message names what was found and what was expected."""


class GGUFError(SpvkError):
    """A GGUF file that cannot be read: the message names the file and the field."""


class TokenizerError(SpvkError):
    """A vocabulary, pre-tokenizer or chat template that cannot be used."""


class DeviceError(SpvkError):
    """No usable Vulkan device, or the device failed."""
