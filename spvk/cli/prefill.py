"""`spvk prefill`: the main job."""

from __future__ import annotations

import os

import click

from .policy import POLICY_OPTIONS
from .shared import (
    BATCH,
    DEVICE,
    MODEL_PATH,
    PROMPT_OPTIONS,
    TARGET,
    draft_option,
    predict_option,
    with_options,
)


@click.command()
@TARGET
@draft_option("The small model that scores; needed unless --mode off.")
@with_options(*PROMPT_OPTIONS)
@predict_option(0, "Tokens to decode.")
@click.option(
    "-c", "--ctx-size", type=click.IntRange(1), metavar="N", help="Limit on prompt and answer [the model's]."
)
@with_options(*POLICY_OPTIONS)
@BATCH
@DEVICE
@click.option(
    "--json", "json_file", metavar="FILE|-", help="Write the report as JSON (- is standard output, alone)."
)
@click.option(
    "--explain",
    "page_file",
    type=MODEL_PATH,
    metavar="OUT.html",
    help="Write a page that shows each token's score and what was read.",
)
def prefill(
    target,
    draft,
    prompt,
    prompt_file,
    tokens_file,
    raw,
    system,
    predict,
    ctx_size,
    batch,
    device,
    json_file,
    page_file,
    protect,
    **policy,
):
    """Score the prompt with the draft, prefill the target with what matters, decode the answer."""
    from .. import job, show

    policy["protect"], ranges = job.read_protect(protect)
    settings = job.read_settings(policy, os.environ)
    source = job.Prompt.of(prompt, prompt_file, tokens_file, raw=raw, system=system)
    inputs = (target, draft, prompt_file, tokens_file)
    job.require_writable(json_file, inputs)
    job.require_page(page_file, json_file, inputs)
    accounts = []
    with show.Screen(json_only=json_file == "-") as screen:
        report = job.run_prefill(
            target,
            draft,
            source,
            settings,
            predict=predict,
            context=ctx_size,
            batch=batch,
            device=device,
            screen=screen,
            protect=ranges,
            explain=accounts.append if page_file else None,
        )
    job.write_json(json_file, report)  # before anything is printed: a closed pipe must not cost the report
    for account in accounts:
        job.write_page(page_file, account)
    screen.report(report, *accounts)
