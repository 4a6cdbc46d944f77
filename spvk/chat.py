"""The chat template that a GGUF file carries (tokenizer.chat_template), rendered with sandboxed Jinja.

A template is untrusted input, so it runs in Jinja's immutable sandbox. The environment offers what Hugging
Face's `apply_chat_template` offers: raise_exception, strftime_now, tojson, break and continue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spvk.errors import TokenizerError
from spvk.tokenizer import Tokenizer

KEY = "tokenizer.chat_template"


class ChatTemplate:
    """A compiled chat template.

    `source` is the Jinja text; `tokenizer` gives the template its bos_token and eos_token (empty texts where
    the vocabulary has none). Raises TokenizerError, one line, for a template that does not compile.
    """

    def __init__(self, source: str, tokenizer: Tokenizer | None = None) -> None:
        self.source = source
        self._bos = _special(tokenizer, "bos")
        self._eos = _special(tokenizer, "eos")
        self._adds_bos = tokenizer is not None and tokenizer.add_bos
        self._adds_eos = tokenizer is not None and tokenizer.add_eos
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise TokenizerError(f"{KEY}: line {error.lineno}: {_one_line(error)}") from None
        except Exception as error:
            raise TokenizerError(f"{KEY}: {_one_line(error)}") from None

    @classmethod
    def from_gguf(cls, fields: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> ChatTemplate:
        """The template of a file's metadata. Raises TokenizerError for a file without one."""
        source = fields.get(KEY)
        if source is None:
            raise TokenizerError(f"{KEY}: not in the file, expected a chat template; "
                                 "use --raw to send the prompt as it is")
        if not isinstance(source, str):
            raise TokenizerError(f"{KEY}: found {type(source).__name__}, expected a string")
        return cls(source, tokenizer)

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True,
               tools: Sequence[Mapping[str, Any]] | None = None, **kwargs: Any) -> str:
        """The prompt text of a conversation.

        messages: mappings with "role" and "content" (and what else the template reads, such as "tool_calls",
        whose arguments are mappings). tools: JSON schemas. kwargs: template variables such as
        enable_thinking. BOS or EOS texts that `Tokenizer.encode` adds itself are taken off the ends, so that
        `encode(render(...))` has them once. Raises TokenizerError, one line, when the template fails.
        """
        names = {"bos_token": self._bos, "eos_token": self._eos, **kwargs, "messages": list(messages),
                 "add_generation_prompt": add_generation_prompt, "tools": tools}
        try:
            text = self._template.render(names)
        except Exception as error:  # a template can raise any Python error
            kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
            raise TokenizerError(f"{KEY}: {kind}{_one_line(error)}") from None
        text = text.removeprefix(self._bos) if self._adds_bos else text
        return text.removesuffix(self._eos) if self._adds_eos else text


def default_messages(prompt: str, system: str | None = None) -> list[dict[str, str]]:
    """A conversation of one user message, after a system message where one is given."""
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, {"role": "user", "content": prompt}]


def _environment() -> ImmutableSandboxedEnvironment:
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return env


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | str | None = None,
            separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    # Jinja's own filter escapes <, > and & for HTML, which would change the prompt.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _special(tokenizer: Tokenizer | None, name: str) -> str:
    token = getattr(tokenizer, f"{name}_id", None)
    return "" if token is None else tokenizer.tokens[token]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
