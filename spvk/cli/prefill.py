"""`spvk prefill`, the main job; `spvk explain`, the same for the page alone; `spvk demo`, on the embedded pair."""

from __future__ import annotations

import os
from typing import Any

import click

from .policy import POLICY_OPTIONS
from .shared import (
    BATCH,
    DEVICE,
    MODEL_PATH,
    PROMPT_OPTIONS,
    TARGET,
    cache_option,
    draft_option,
    pair,
    precision_option,
    predict_option,
    with_options,
)

JOB_OPTIONS = (
    TARGET,
    draft_option("The small model that scores; needed unless --mode off."),
    *PROMPT_OPTIONS,
    click.option(
        "-c",
        "--ctx-size",
        type=click.IntRange(1),
        metavar="N",
        help="Limit on prompt and answer [the model's].",
    ),
    *POLICY_OPTIONS,
    BATCH,
    DEVICE,
    precision_option(),
    cache_option(),
    click.option(
        "--json",
        "json_file",
        metavar="FILE|-",
        help="Write the report as JSON (- is standard output, alone).",
    ),
)

OWN = (
    "target",
    "draft",
    "prompt",
    "prompt_file",
    "tokens_file",
    "raw",
    "system",
    "predict",
    "ctx_size",
    "batch",
    "device",
    "precision",
    "cache_type",
    "json_file",
    "page_file",
)  # all other options are the policy's


@click.command()
@with_options(*JOB_OPTIONS)
@predict_option(0, "Tokens to decode.")
@click.option(
    "--explain",
    "page_file",
    type=MODEL_PATH,
    metavar="OUT.html",
    help="Write a page that shows each token's score and what was read.",
)
def prefill(**options):
    """Score the prompt with the draft, prefill the target with what matters, decode the answer."""
    run(options, "--explain")


@click.command()
@with_options(*JOB_OPTIONS)
@predict_option(0, "Tokens to decode.", 1)
@click.option(
    "-o", "--output", "page_file", type=MODEL_PATH, required=True, metavar="OUT.html", help="The page."
)
def explain(**options):
    """Write a page that shows what a prefill reads and why: tokens, chunks, layers and heads, the decision."""
    run(options, "--output")


@click.command()
@DEVICE
@precision_option()
def demo(device, precision):
    """Answer a question about a document of 4,000 tokens, sparse and dense, side by side with the truth.

    Models, document and question come with spvk (docs/TRAINING.md).
    """
    from .. import demo, show

    with show.Screen() as screen:
        result = demo.run_demo(device=device, precision=precision, screen=screen)
    for line in demo.lines(result):
        click.echo(line)


def run(options: dict[str, Any], page_flag: str) -> None:
    """Prefill by a command's options; `page_flag` is what its page's file is called."""
    from .. import job, outputs, show

    given = {name: options.pop(name) for name in OWN if name in options}
    options["protect"], ranges = job.read_protect(options["protect"])
    settings = job.read_settings(options, os.environ)
    prompt = (given["prompt"], given["prompt_file"], given["tokens_file"])
    source = job.Prompt.of(*prompt, raw=given["raw"], system=given["system"])
    given["target"], given["draft"] = pair(given["target"], given["draft"])
    json_file, page_file = given["json_file"], given["page_file"]
    inputs = (given["target"], given["draft"], given["prompt_file"], given["tokens_file"], settings.heads_file)
    outputs.require_writable(json_file, inputs)
    outputs.require_file(page_flag, page_file, json_file, inputs)
    accounts = []
    with show.Screen(json_only=json_file == "-") as screen:
        report = job.run_prefill(
            given["target"],
            given["draft"],
            source,
            settings,
            predict=given["predict"],
            context=given["ctx_size"],
            batch=given["batch"],
            device=given["device"],
            precision=given["precision"],
            cache=given["cache_type"],
            screen=screen,
            protect=ranges,
            explain=accounts.append if page_file else None,
        )
    outputs.write_json(
        json_file, report
    )  # before anything is printed: a closed pipe must not cost the report
    for account in accounts:
        outputs.write_page(page_file, account)
    screen.report(report, *accounts)
