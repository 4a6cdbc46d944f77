"""What spvk and llama.cpp's CPU back end answer: to one prompt, and beside exact outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence
from zipfile import BadZipFile

import numpy as np
from libllama import LlamaCpp, Refused

from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import Session

CHUNK = 32  # tokens; the sparse prefill leaves out every other chunk but the last


@dataclass
class Outputs:
    """What a program makes of a prompt.

    logits: float32 [positions, vocabulary] after each of the prompt's last tokens; greedy: the token ids that
    follow; rows: float32 [attention layers, heads, keys], the softmax rows of the prompt's last token.
    """

    logits: np.ndarray
    rows: np.ndarray
    greedy: list[int]


# -- running -----------------------------------------------------------------------------------------------


def ours(model: Model, tokens: np.ndarray, positions: np.ndarray, last: int, predict: int) -> Outputs:
    """spvk's outputs: a prefill, the prompt's last tokens but one read one by one, then greedy decoding."""
    first, end = len(tokens) - last + 1, int(positions[-1]) + 1
    context = min(model.config.context_length, len(tokens) + predict)
    with Session(model, context, capture=Capture(rows=True)) as session:
        token = session.prefill(tokens[:first], positions[:first])
        logits = [session.logits()]
        for i in range(first, len(tokens)):
            token = session.decode(int(tokens[i]), int(positions[i]))
            logits.append(session.logits())
        rows, greedy = session.attention_rows(), [token] * min(predict, 1)
        for i in range(predict - 1):
            greedy.append(session.decode(greedy[-1], end + i))
    return Outputs(np.stack(logits), rows, greedy)


def theirs(llama: LlamaCpp, tokens: np.ndarray, positions: np.ndarray, last: int, predict: int) -> Outputs:
    """llama.cpp's outputs: one batch, then greedy decoding. Raises Refused for positions it does not take."""
    llama.reset()
    logits = llama.read(tokens.tolist(), positions.tolist(), last)
    rows, greedy = llama.attention_rows(len(tokens)), [int(logits[-1].argmax())] * min(predict, 1)
    for _ in range(predict - 1):
        greedy.append(int(llama.read(greedy[-1:])[0].argmax()))
    return Outputs(logits, rows, greedy)


def gapped(n: int) -> np.ndarray:
    """The positions of a sparse prefill of n tokens: every other chunk from the first, and the last chunk."""
    at = np.arange(n)
    return at[(at // CHUNK % 2 == 0) | (at >= n - CHUNK)]


def compare_prompt(model: Model, llama: LlamaCpp, tokens: np.ndarray, last: int, predict: int) -> dict:
    """Differences at the prompt's `last` positions, over `predict` greedy tokens, and of a sparse prefill."""
    positions, kept = np.arange(len(tokens)), gapped(len(tokens))
    last = min(last, len(tokens))
    dense = difference(
        ours(model, tokens, positions, last, predict), theirs(llama, tokens, positions, last, predict)
    )
    found = {"prompt_tokens": len(tokens), **dense, "sparse_tokens": len(kept)}
    try:
        other = theirs(llama, tokens[kept], kept, 1, predict)
    except Refused as refused:
        return found | {"sparse": None, "sparse_refused": str(refused)}
    return found | {"sparse": difference(ours(model, tokens[kept], kept, 1, predict), other)}


# -- comparing: plain data ---------------------------------------------------------------------------------


def difference(a: Outputs, b: Outputs) -> dict:
    """Numbers for how far b is from a; KL divergences in nats, of b from a."""
    kl = divergence(a.logits, b.logits)
    return {
        "positions": len(kl),
        "top1": float((a.logits.argmax(-1) == b.logits.argmax(-1)).mean()),
        "kl_mean": float(kl.mean()),
        "kl_max": float(kl.max()),
        "rows_difference": float(np.abs(a.rows - b.rows).max()),
        "greedy_tokens": len(a.greedy),
        "greedy_same": common_prefix(a.greedy, b.greedy),
    }


def divergence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """KL(softmax a || softmax b) of each row, in nats, float64."""
    a, b = (log_softmax(x.astype(np.float64)) for x in (a, b))
    return (np.exp(a) * (a - b)).sum(-1)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens are the same before the first that differs."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


def prompt_table(found: dict) -> list[tuple[str, str]]:
    """Rows for `markdown`, the head first."""
    rows = [("spvk and llama.cpp", ""), ("prompt", f"{found['prompt_tokens']} tokens"), *lines(found)]
    head = f"sparse prefill of {found['sparse_tokens']} tokens at their own positions"
    if found["sparse"] is None:
        return [*rows, (head, f"refused by llama.cpp: {found['sparse_refused']}")]
    return [*rows, (head, ""), *lines(found["sparse"])]


def lines(d: dict) -> list[tuple[str, str]]:
    return [
        ("greedy tokens the same", f"{d['greedy_same']} of {d['greedy_tokens']}"),
        ("top token the same", f"{d['top1']:.1%} of {d['positions']} positions"),
        ("KL of the next token, mean and largest", f"{d['kl_mean']:.2e}, {d['kl_max']:.2e} nats"),
        ("softmax rows, largest difference", f"{d['rows_difference']:.2e}"),
    ]


# -- beside exact outputs ----------------------------------------------------------------------------------


def read_cases(path: str) -> dict[str, dict[str, np.ndarray]]:
    """The cases of an .npz of exact outputs: name -> tokens, positions, logits, attn_rows.

    Raises SpvkError for a file that is none, OSError for one that cannot be read.
    """
    wanted = ("tokens", "positions", "logits", "attn_rows")
    try:
        with np.load(path) as z:
            names = dict.fromkeys(key.split("/")[0] for key in z.files)
            return {name: {key: z[f"{name}/{key}"] for key in wanted} for name in names}
    except KeyError as error:
        raise SpvkError(f"--npz: {path}: {error.args[0]}, expected every case to have it") from None
    except (ValueError, EOFError, AttributeError, BadZipFile):
        raise SpvkError(
            f"--npz: {path}: found no archive, expected an .npz of CASE/{'|'.join(wanted)}"
        ) from None


def require_shapes(name: str, exact: dict[str, np.ndarray], got: Outputs) -> None:
    """Raise SpvkError where a case is another model's."""
    for key, found in (("logits", got.logits[0]), ("attn_rows", got.rows)):
        if found.shape != exact[key].shape:
            shapes = f"found {list(exact[key].shape)}, expected {list(found.shape)} of this model"
            raise SpvkError(f"--npz: {name}/{key}: {shapes}")


def fidelity(model: Model, llama: LlamaCpp, cases: dict[str, dict[str, np.ndarray]]) -> list[dict]:
    """One row a case: each program's NMSE of logits and largest difference of softmax rows."""
    rows = []
    for name, exact in cases.items():
        row = {"case": name, "tokens": len(exact["tokens"])}
        for who, run, what in (("spvk", ours, model), ("llamacpp", theirs, llama)):
            try:
                got = run(what, exact["tokens"], exact["positions"], 1, 0)
            except Refused:
                row |= {f"{who}_nmse": None, f"{who}_rows": None}
                continue
            require_shapes(name, exact, got)
            row[f"{who}_nmse"] = nmse(got.logits[0], exact["logits"])
            row[f"{who}_rows"] = float(np.abs(got.rows - exact["attn_rows"]).max())
        rows.append(row)
    return rows


def nmse(got: np.ndarray, exact: np.ndarray) -> float:
    """Normalised mean squared error: sum((got - exact)^2) / sum(exact^2), in float64."""
    got, exact = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    return float(((got - exact) ** 2).sum() / (exact**2).sum())


def fidelity_table(rows: list[dict]) -> list[tuple[str, ...]]:
    """Rows for `markdown`, the head first."""
    head = ("case", "tokens", "logits NMSE: spvk", "llama.cpp", "rows: spvk", "llama.cpp")
    keys = ("spvk_nmse", "llamacpp_nmse", "spvk_rows", "llamacpp_rows")

    def cell(value: float | None) -> str:
        return "refused" if value is None else f"{value:.2e}"

    return [head, *((r["case"], str(r["tokens"]), *(cell(r[k]) for k in keys)) for r in rows)]
