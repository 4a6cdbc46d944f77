"""Options that several commands share."""

from __future__ import annotations

import click

from .. import embedded
from ..errors import SpvkError

MODEL_PATH = click.Path(path_type=str)
TARGET = click.option(
    "-m",
    "--target",
    "--model",
    type=MODEL_PATH,
    metavar="GGUF",
    help="The model that answers. Neither this nor --draft: the small pair that comes with spvk.",
)
RAW = click.option("--raw", is_flag=True, help="Text goes in as it is, without the chat template.")
PROMPT_OPTIONS = (
    click.option("-p", "--prompt", metavar="TEXT", help="The prompt itself."),
    click.option(
        "-f",
        "--file",
        "prompt_file",
        metavar="FILE",
        help="Read the prompt from FILE (UTF-8; - is standard input).",
    ),
    click.option(
        "--tokens", "tokens_file", metavar="FILE.npy", help="Token ids, a one-dimensional integer array."
    ),
    RAW,
    click.option("--system", metavar="TEXT", help="System message for the chat template."),
)
DEVICE = click.option("--device", metavar="NAME|INDEX", help="Vulkan device, see `spvk devices`.")
BATCH = click.option(
    "-b",
    "--batch",
    "--batch-size",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    metavar="N",
    help="Tokens read at once.",
)


def precision_option(default: str = "auto"):
    return click.option(
        "--precision",
        type=click.Choice(["auto", "exact", "fast"]),
        default=default,
        show_default=True,
        help="Products of float32 activations, or of rounded ones (auto: where that costs little).",
    )


def cache_option():
    return click.option(
        "-ct",
        "--cache-type",
        type=click.Choice(["f32", "f16"]),
        default="f32",
        show_default=True,
        help="Keys and values as float32, or as float16 in half the memory.",
    )


def pair(target: str | None, draft: str | None) -> tuple[str, str | None]:
    """Both models' files: the embedded pair where none is given. Raises SpvkError where the target is missing."""
    if target is None and draft is None:
        click.echo("models: the embedded pair, which knows generated English alone (docs/TRAINING.md)", err=True)
        return embedded.TARGET, embedded.DRAFT
    if target is None:
        raise SpvkError("--target: missing, expected a GGUF file beside --draft")
    return target, draft


def draft_option(text: str, required: bool = False):
    return click.option("-md", "--draft", type=MODEL_PATH, required=required, metavar="GGUF", help=text)


def predict_option(least: int, text: str, default: int = 32):
    least = click.IntRange(least)
    return click.option(
        "-n", "--predict", type=least, default=default, show_default=True, metavar="N", help=text
    )


def with_options(*options):
    def apply(command):
        for option in reversed(options):
            command = option(command)
        return command

    return apply
