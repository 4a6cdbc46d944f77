"""`spvk eval`: accuracy against baselines. `spvk calibrate`: the heads that retrieve."""

from __future__ import annotations

import click

from ..errors import SpvkError
from .shared import (
    BATCH,
    DEVICE,
    MODEL_PATH,
    RAW,
    TARGET,
    cache_option,
    draft_option,
    pair,
    precision_option,
    predict_option,
)


@click.command("eval")
@TARGET
@draft_option("The small model that scores.")
@click.option("--prompts", metavar="FILE.jsonl", help="Prompts and answers, one JSON object a line.")
@click.option(
    "--task",
    metavar="A,B,...",
    help="Generated prompts in place of --prompts: passkey, keys, chains, count, lookup, code.",
)
@click.option("--length", metavar="N,...", help="Generated prompts: tokens of each. [1000]")
@click.option(
    "--depth", metavar="X,...", help="Generated prompts: where the answer stands, 0 to 1. [0.1,0.5,0.9]"
)
@click.option(
    "--count", type=click.IntRange(1), metavar="N", help="Prompts of each task, length and depth. [10]"
)
@click.option(
    "--policy",
    default="v3,paper,auto,dense,random,recent,even,ends",
    show_default=True,
    metavar="A,B,...",
    help="Presets and baselines; options of prefill follow a colon, as in v3:edges=peaks:pool=5.",
)
@click.option(
    "--keep",
    default="0.3,0.2,0.1",
    show_default=True,
    metavar="X,Y,...",
    help="Fractions to keep; preset: as many as the preset keeps by itself.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N prompts of each cell.")
@predict_option(1, "Tokens to decode where the answer is text.")
@RAW
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Of the generated prompts and the random baseline.",
)
@BATCH
@DEVICE
@precision_option()
@cache_option()
@click.option(
    "--json", "json_file", metavar="FILE", help="Write table and records as JSON, after each prompt."
)
@click.option("--md", "md_file", metavar="FILE", help="Write the table as Markdown.")
@click.option(
    "--plots",
    "plots_folder",
    metavar="DIR",
    help="Write accuracy.png and ttft.png (needs the extra spvk[eval]).",
)
@click.option("--resume", is_flag=True, help="Go on where the run that wrote the --json file stopped.")
def evaluate(
    target,
    draft,
    prompts,
    task,
    length,
    depth,
    count,
    policy,
    keep,
    limit,
    predict,
    raw,
    seed,
    batch,
    device,
    precision,
    cache_type,
    json_file,
    md_file,
    plots_folder,
    resume,
):
    """Measure accuracy: prompts x policies x keep fractions, with 95 % intervals.

    \b
    A line has tokens and answer (token ids; value_pos: where in the prompt the answer stands, needed_pos: a list
    of where else it has what the answer needs), or, as text, prompt, or context and input, and answer, answers (any of them is right) or outputs (all are wanted).
    task, dataset, len, facts and depth sort prompts into cells.
    Generated prompts have exact answers: a pass key, one of several keys, the variables of a chain, how often
    something happened, an entry of a list, what a function returns.
    The baselines random, recent, even and ends keep as many tokens as v3 does, and so does oracle: the question
    and what its answer needs, which a prompt has to tell, then evenly spaced chunks. With protect=on they also
    keep what auto protects, and as many tokens as auto.
    """
    from .. import outputs, show
    from ..evaluate import generate, plots, policies, run, table

    if json_file == "-" or (resume and json_file is None):
        raise SpvkError(f"--json: found {json_file or 'none'}, expected the name of a file")
    given = {"--length": length, "--depth": depth, "--count": count}
    source = generate.source(prompts, task, given, seed)
    plan = policies.Plan(
        policies.read_policies(policy),
        policies.read_keeps(keep),
        predict,
        raw,
        seed,
        batch,
        precision,
        cache_type,
    )
    target, draft = pair(target, draft)
    if draft is None:
        raise SpvkError("--draft: missing, expected a GGUF file beside --target")
    calibrations = (p.settings(0.5).heads_file for p in plan.policies if "heads" in p.options)
    inputs = (target, draft, prompts, *calibrations)
    outputs.require_writable(json_file, inputs)
    outputs.require_writable(md_file, (*inputs, json_file))
    plots.require_folder(plots_folder)
    with show.Screen() as screen:
        report = run.run_eval(
            target,
            draft,
            source,
            plan,
            limit=limit,
            device=device,
            json_file=json_file,
            resume=resume,
            screen=screen,
        )
    text = table.markdown(report["table"])
    if md_file not in (None, "-"):
        outputs.write_file(md_file, text.encode("utf-8", "replace"))
    if plots_folder is not None:
        plots.write_plots(plots_folder, report["table"])
    click.echo(text, nl=False)


@click.command()
@draft_option("The model whose heads are ranked.", required=True)
@click.option(
    "--task",
    default="passkey,keys,lookup,code",
    show_default=True,
    metavar="A,B,...",
    help="Generated prompts, as for eval.",
)
@click.option("--length", default="500", show_default=True, metavar="N,...", help="Tokens of each prompt.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Prompts of each task, length and depth, to rank the heads by; as many again to validate.",
)
@click.option(
    "--lookahead",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    metavar="N",
    help="Tokens the draft decodes after each prompt.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the prompts.")
@RAW
@BATCH
@DEVICE
@click.option(
    "-o",
    "--output",
    type=MODEL_PATH,
    metavar="OUT.json",
    help="Where to write the heads [the cache directory, where --heads auto finds them].",
)
def calibrate(draft, task, length, count, lookahead, seed, raw, batch, device, output):
    """Find the heads of a draft that retrieve, for prefill --heads.

    Half of the generated prompts rank the heads by how they attend to what each question needs; the other half
    decide how many of the best are taken, or all.
    """
    from .. import outputs, show
    from ..evaluate import calibrate, generate

    recipe = generate.read_recipe(task, length, "0.1,0.3,0.5,0.7,0.9", 2 * count, seed)
    output = calibrate.default_output(draft) if output is None else output
    outputs.require_file("--output", output, None, (draft,))
    with show.Screen() as screen:
        result = calibrate.run_calibrate(
            draft, recipe, raw=raw, lookahead=lookahead, batch=batch, device=device, screen=screen
        )
    outputs.write_json(output, result)
    for line in (*calibrate.summary(result), f"written to {output}"):
        click.echo(line, err=True)
