"""The commands' work: prompts from files, models onto the device, the report."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import engine
from .chat import ChatTemplate, default_messages
from .errors import SpvkError, TokenizerError
from .explain import Account
from .gguf import GGUFFile, open_gguf
from .gguf.mismatch import plain
from .model import Model
from .models import architecture_of
from .outputs import write_file
from .session import check_tokens
from .specprefill import (
    Rates,
    RateStore,
    Settings,
    Tally,
    fingerprint,
    heads_for,
    prefill_work,
    read_structure,
    report_dict,
    score_work,
    settings_key,
)
from .tokenizer import StreamDecoder, Tokenizer
from .vulkan import Device
from .vulkan.device import cache_dir


@dataclass(frozen=True)
class Prompt:
    """A prompt as text, to go through the chat template unless `raw`, or as token ids."""

    text: str | None = None
    tokens: np.ndarray | None = None
    raw: bool = False
    system: str | None = None

    @classmethod
    def of(
        cls,
        text: str | None,
        file: str | None,
        tokens_file: str | None,
        *,
        raw: bool = False,
        system: str | None = None,
    ) -> Prompt:
        """From the command line's options. Raises SpvkError unless exactly one source is given and usable."""
        given = [
            flag
            for flag, value in (("-p", text), ("-f", file), ("--tokens", tokens_file))
            if value is not None
        ]
        if len(given) != 1:
            raise SpvkError(
                f"prompt: found {' and '.join(given) or 'none'}, expected exactly one of -p, -f, --tokens"
            )
        if system is not None and (raw or tokens_file is not None):
            raise SpvkError(
                f"--system: found with {'--raw' if raw else '--tokens'}, expected a prompt for the chat template"
            )
        if tokens_file is not None:
            return cls(tokens=load_integers("--tokens", tokens_file))
        text = read_text(file) if file is not None else text
        if not text.strip():
            raise SpvkError(f"prompt: empty{f' ({file})' if file else ''}, expected some text")
        return cls(text, raw=raw, system=system)

    def encode(self, model: Model) -> list[int] | np.ndarray:
        """Token ids by the model's own tokenizer and chat template."""
        if self.tokens is not None:
            return self.tokens
        tokenizer = model.tokenizer
        if self.raw:
            return tokenizer.encode(self.text)
        try:
            template = ChatTemplate.from_gguf(model.file.fields, tokenizer)
            return tokenizer.encode(template.render(default_messages(self.text, self.system)))
        except TokenizerError as error:
            raise TokenizerError(f"{plain(model.path)}: {error}") from None


def read_settings(options: dict, environ: Mapping[str, str]) -> Settings:
    """The policy's settings: options, then SP_* variables. `--keep` alone means `--select chunk`."""
    if options["keep"] is not None and options["select"] is None and not environ.get("SP_SELECT_MODE"):
        options = {**options, "select": "chunk"}
    return Settings.resolve(options, environ)


def read_protect(values: Sequence[str]) -> tuple[str | None, list[tuple[int, int]]]:
    """What `--protect` says: the last of on and off (None: neither), and the ranges START:END."""
    switch, ranges = None, []
    for value in values:
        pair = re.fullmatch(r"(\d{1,10}):(\d{1,10})", value.strip(), re.ASCII)
        if pair and int(pair[1]) < int(pair[2]):
            ranges.append((int(pair[1]), int(pair[2])))
        elif value in ("on", "off"):
            switch = value
        else:
            raise SpvkError(f"--protect: found {value[:60]!r}, expected START:END (START < END), on or off")
    return switch, ranges


def read_text(path: str) -> str:
    """A file's text, or standard input's for `-`; SpvkError when it cannot be read as UTF-8."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SpvkError(f"-f {path}: {error.strerror}, expected a text file") from None
    except UnicodeDecodeError as error:
        raise SpvkError(f"-f {path}: byte {error.start} is not UTF-8, expected a text file") from None


def load_integers(flag: str, path: str) -> np.ndarray:
    """A one-dimensional integer array from a .npy file; SpvkError naming the flag and the file."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise SpvkError(f"{flag} {plain(path)}: {error.strerror or error}, expected a .npy file") from None
    except Exception:  # NumPy raises a dozen kinds for a hostile header
        raise SpvkError(f"{flag} {plain(path)}: found something else, expected a plain .npy array") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "an archive"
        raise SpvkError(f"{flag} {path}: found {found}, expected one dimension of integers")
    return array


def open_pair(
    stack: ExitStack,
    device: Device,
    target: str,
    draft: str | None,
    precision: str = "exact",
    cache: str = "f32",
) -> tuple[Model, Model | None]:
    """Both models on the device; one copy where draft and target are the same file."""
    model = stack.enter_context(Model(device, target, precision, cache))
    return model, None if draft is None else open_draft(stack, device, model, draft)


def open_draft(stack: ExitStack, device: Device, target: Model, draft: str) -> Model:
    """The draft on the device; the target itself where it is the same file."""
    if os.path.realpath(draft) == os.path.realpath(target.path):
        return target
    require_draft(target.file, draft)
    return stack.enter_context(Model(device, draft, target.profile.precision, target.profile.cache))


def require_draft(target: GGUFFile, draft: str) -> Any:
    """The configuration of the file at `draft`, SpvkError unless it can score for the target; nothing is loaded."""
    file, config = read_config(draft)
    key = "tokenizer.ggml.tokens"
    if file.fields.get(key) != target.fields.get(key):
        ours, theirs = (Tokenizer.from_gguf(f.fields) for f in (target, file))
        if difference := ours.same_vocabulary(theirs):
            raise SpvkError(f"{draft}: its vocabulary differs from that of {target.path}: {difference}")
    return config


def read_config(path: str) -> tuple[GGUFFile, Any]:
    """A model file and its checked sizes; nothing is loaded. Raises SpvkError naming what is wrong."""
    file = open_gguf(path)
    return file, architecture_of(file).read_config(file)


def run_prefill(
    target: str,
    draft: str | None,
    prompt: Prompt,
    settings: Settings,
    *,
    predict: int,
    context: int | None,
    batch: int,
    device: str | None,
    precision: str = "exact",
    cache: str = "f32",
    screen,
    protect: Sequence[tuple[int, int]] = (),
    explain: Callable[[Account], None] | None = None,
) -> dict:
    """The main job from files to report; `screen` is a show.Screen. Returns the report as plain values.

    `protect` are ranges [start, end) of prompt tokens to keep besides; `explain` gets what explain.py needs.
    What the run took is remembered in the cache directory, for mode auto to predict by, unless it is explained:
    that takes longer.
    """
    if draft is None and settings.mode != "off":
        raise SpvkError("--draft: missing, expected a GGUF file (or --mode off for a dense prefill)")
    draft = None if settings.mode == "off" else draft
    start = perf_counter()
    with ExitStack() as stack:
        dev = stack.enter_context(Device(device))
        screen.device(dev.info, dev.reason)
        model, scorer = stack.enter_context(Model(dev, target, precision, cache)), None
        tokens, _ = check_tokens(prompt.encode(model), None, model.vocabulary)
        settings = engine.settle(settings, model)
        structure = read_structure(tokens, model.tokenizer, settings, ranges=protect)
        memory = RateMemory.of(dev, model, draft, settings)
        tally = None if explain is None else Tally()
        if draft is not None:
            if engine.foregone(len(tokens), settings, structure, memory.rates()):
                # Wrong in any case, though the draft need not be loaded.
                heads_of(settings, draft, require_draft(model.file, draft))
            else:
                scorer = open_draft(stack, dev, model, draft)
        for m in dict.fromkeys((model, scorer)):
            screen.notices(m)
        load_ms = 1e3 * (perf_counter() - start)
        text = StreamDecoder(model.tokenizer, skip_special=True)
        result = engine.prefill(
            model,
            scorer,
            tokens,
            settings,
            predict=predict,
            batch=batch,
            context=context,
            load_ms=load_ms,
            stop=sorted(model.tokenizer.eog_ids),
            progress=screen.progress,
            on_token=lambda t: screen.answer(text.push(t)),
            structure=structure,
            rates=memory.rates(),
            heads=heads_of(settings, scorer.path, scorer.config) if scorer else None,
            tally=tally,
        )
        if batch == engine.BATCH and tally is None:  # others have speeds of their own
            memory.add(result)
        screen.answer(text.finish())
        report = report_dict(
            result.selection,
            settings,
            result.timings,
            tokens=result.tokens,
            text=model.tokenizer.decode(result.tokens, skip_special=True),
            target=target,
            draft=draft,
            device=dev.info.name,
            precision=model.profile.precision,
            cache_type=model.profile.cache,
            decision=result.decision,
            structure=structure,
        )
        if explain is not None:
            pieces = [model.tokenizer.token_bytes(t) for t in tokens.tolist()]
            scores, kept = result.selection.chunk_scores, result.selection.positions
            shares = None if result.importance is None else tally.shares(kept)
            blocks = scorer.config.attention_layers if scorer else ()
            explain(Account(report, tokens.tolist(), pieces, result.importance, scores, shares, blocks))
    return report


def heads_of(settings: Settings, draft: str, config: Any) -> np.ndarray | None:
    """Heads that count of the draft's file and sizes, bool [attention layers, heads]; None: all of them."""
    shape = (len(config.attention_layers), config.attention.heads)
    return heads_for(settings.heads, cache_dir(), draft, shape)


@dataclass(frozen=True)
class RateMemory:
    """What earlier runs of this pair on this device took and kept."""

    store: RateStore
    target: str
    draft: str
    settings: Settings
    layers: int
    """Of the target."""

    @classmethod
    def of(cls, device: Device, target: Model, draft: str | None, settings: Settings) -> RateMemory:
        # Fast products, half caches and reading rows head by head take times of their own.
        profile = target.profile
        kind = ("/fast" if profile.precision == "fast" else "") + ("/f16" if profile.cache == "f16" else "")
        scorer = fingerprint(draft or target.path) + kind + ("/rows" if engine.by_head(settings) else "")
        store, name = RateStore(cache_dir(), device.info.cache_key), fingerprint(target.path) + kind
        return cls(store, name, scorer, settings, target.config.layers)

    def rates(self) -> Rates:
        found = self.store.rates(self.target, self.draft, settings_key(self.settings))
        return replace(found, layers=self.layers)

    def add(self, result: engine.Result) -> None:
        """Remember a run: its times, and the fraction that it kept."""
        self.add_times(result)
        if result.decision.is_sparse:
            key = settings_key(self.settings)
            self.store.add_kept(self.target, self.draft, key, result.selection.kept_fraction)

    def add_times(self, result: engine.Result) -> None:
        """Pipelines were compiled before the run's clock started, so a first run counts too."""
        times, selection = result.timings, result.selection
        if not (result.settings.dense_layers and result.decision.is_sparse):  # no pass over kept tokens
            self.store.add_prefill(self.target, prefill_work(selection.kept_tokens), times.prefill_ms)
        if result.importance is not None:
            work = score_work(selection.prompt_tokens, self.settings)
            self.store.add_score(self.draft, work, times.score_ms + times.select_ms)


def run_dump(
    path: str,
    tokens_file: str,
    positions_file: str | None,
    *,
    lookahead: int,
    batch: int,
    device: str | None,
    precision: str = "exact",
    cache: str = "f32",
    output: str,
) -> None:
    """An .npz of a model's outputs, see engine.dump, on the tokens and positions of two .npy files."""
    tokens = load_integers("--tokens", tokens_file)
    positions = load_integers("--positions", positions_file) if positions_file else None
    with Device(device) as dev, Model(dev, path, precision, cache) as model:
        for line in model.notices:
            print(f"{path}: {line}", file=sys.stderr)
        arrays = engine.dump(model, tokens, positions, lookahead=lookahead, batch=batch)
    data = io.BytesIO()
    np.savez(data, **arrays)
    write_file(output, data.getvalue())
