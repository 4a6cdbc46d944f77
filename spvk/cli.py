"""The command line: options in, one line for each mistake, no logic."""

from __future__ import annotations

import os
import sys

import click

from . import __version__
from .errors import SpvkError
from .options import POLICY_OPTIONS

MODEL_PATH = click.Path(path_type=str)
TARGET = click.option(
    "-m",
    "--target",
    "--model",
    type=MODEL_PATH,
    required=True,
    metavar="GGUF",
    help="The model that answers.",
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


def draft_option(text: str, required: bool = False):
    return click.option("-md", "--draft", type=MODEL_PATH, required=required, metavar="GGUF", help=text)


def predict_option(least: int, text: str):
    least = click.IntRange(least)
    return click.option("-n", "--predict", type=least, default=32, show_default=True, metavar="N", help=text)


def with_options(*options):
    def apply(command):
        for option in reversed(options):
            command = option(command)
        return command

    return apply


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spvk")
def cli() -> None:
    """Sparse prefill for GGUF models: a draft model finds the tokens that matter, the target reads only those."""


@cli.command()
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
    from . import job, show

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


@cli.command("eval")
@TARGET
@draft_option("The small model that scores.", required=True)
@click.option(
    "--prompts", required=True, metavar="FILE.jsonl", help="Prompts and answers, one JSON object a line."
)
@click.option(
    "--policy",
    default="v3,paper,auto,dense,random,recent,even,ends",
    show_default=True,
    metavar="A,B,...",
    help="Presets and baselines; options of prefill follow a colon, as in v3:edges=peaks:pool=5.",
)
@click.option(
    "--keep", default="0.3,0.2,0.1", show_default=True, metavar="X,Y,...", help="Fractions to keep."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N prompts of each cell.")
@predict_option(1, "Tokens to decode where the answer is text.")
@RAW
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the random baseline.")
@BATCH
@DEVICE
@click.option(
    "--json", "json_file", metavar="FILE", help="Write table and records as JSON, after each prompt."
)
@click.option("--md", "md_file", metavar="FILE", help="Write the table as Markdown.")
@click.option("--resume", is_flag=True, help="Go on where the run that wrote the --json file stopped.")
def evaluate(
    target, draft, prompts, policy, keep, limit, predict, raw, seed, batch, device, json_file, md_file, resume
):
    """Measure accuracy: prompts x policies x keep fractions, with 95 % intervals.

    \b
    A line has tokens and answer (token ids; value_pos: where in the prompt the answer stands), or, as text,
    prompt, or context and input, and answer, answers (any of them is right) or outputs (all are wanted).
    task, dataset, len and facts sort prompts into cells.
    The baselines random, recent, even and ends keep as many tokens as v3 does.
    """
    from . import job, show
    from .evaluate import policies, run, table

    if json_file == "-" or (resume and json_file is None):
        raise SpvkError(f"--json: found {json_file or 'none'}, expected the name of a file")
    plan = run.Plan(policies.read_policies(policy), policies.read_keeps(keep), predict, raw, seed, batch)
    job.require_writable(json_file, (target, draft, prompts))
    job.require_writable(md_file, (target, draft, prompts, json_file))
    with show.Screen() as screen:
        report = run.run_eval(
            target,
            draft,
            prompts,
            plan,
            limit=limit,
            device=device,
            json_file=json_file,
            resume=resume,
            screen=screen,
        )
    text = table.markdown(report["table"])
    if md_file not in (None, "-"):
        job.write_file(md_file, text.encode("utf-8", "replace"))
    click.echo(text, nl=False)


@cli.command()
@click.argument("model", type=MODEL_PATH)
@click.option(
    "--tokens",
    "tokens_file",
    required=True,
    metavar="FILE.npy",
    help="Token ids, a one-dimensional integer array.",
)
@click.option(
    "--positions", "positions_file", metavar="FILE.npy", help="Their positions, increasing [0, 1, …]."
)
@click.option(
    "--lookahead",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Greedy tokens to decode after the prompt.",
)
@BATCH
@DEVICE
@click.option("-o", "--output", required=True, metavar="OUT.npz")
def dump(model, tokens_file, positions_file, lookahead, batch, device, output):
    """Write a model's outputs to compare with another engine's.

    \b
    OUT.npz has, after the prompt and after each of N greedy tokens:
      logits [1+N, vocabulary], greedy [1+N],
      attn_rows_step0 ... attn_rows_stepN [attention layers, heads, keys]: softmax rows of the last token;
    and for the prompt:
      hidden [layers, width]: each layer's output for the last token,
      importance [tokens]: what the policy would start from.
    """
    from . import job

    job.require_writable(output, (model, tokens_file, positions_file))
    job.run_dump(
        model, tokens_file, positions_file, lookahead=lookahead, batch=batch, device=device, output=output
    )


@cli.command()
@click.argument("model", type=MODEL_PATH)
def inspect(model):
    """Show what a GGUF file holds, needs no device.

    What would be skipped or repacked is said.
    """
    from . import show

    show.print_model(model)


@cli.command()
def devices():
    """List the Vulkan devices.

    The one that would be used is named, with the reason.
    """
    from . import show

    show.print_devices()


@cli.command()
@click.argument("size")
@click.argument("out", type=MODEL_PATH, metavar="OUT.gguf")
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="The same seed gives the same file."
)
@click.option(
    "--weights", default="q4k", show_default=True, metavar="q4k|f16|f32", help="Type of the matrices."
)
def synth(size, out, seed, weights):
    """Write a model with random weights, to measure speed with: SIZE is 0.8b, 4b, tiny-draft or tiny-target."""
    from . import synth

    synth.run(size, out, seed=seed, weights=weights)


@cli.command()
@click.option(
    "-m", "--model", type=MODEL_PATH, required=True, metavar="GGUF", help="The model that is measured."
)
@click.option("-p", "--n-prompt", default="512", show_default=True, metavar="N,…", help="Prompt tokens.")
@click.option("-n", "--n-gen", default="128", show_default=True, metavar="N,…", help="Tokens to decode.")
@click.option(
    "-d", "--n-depth", default="0", show_default=True, metavar="N,…", help="Tokens read before, not timed."
)
@click.option(
    "-r",
    "--repetitions",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    help="Timed runs of each test.",
)
@BATCH
@DEVICE
@click.option(
    "-o", "--output", "form", default="md", show_default=True, metavar="md|json|csv|jsonl", help="Format."
)
def bench(model, n_prompt, n_gen, n_depth, repetitions, batch, device, form):
    """Measure prefill and decode with llama-bench's columns and JSON names.

    Each test warms up once. Counts may be lists (128,512); 0 leaves a test out.
    """
    from . import bench

    bench.require_format(form)
    tests = bench.plan(
        bench.read_counts("-p", n_prompt), bench.read_counts("-n", n_gen), bench.read_counts("-d", n_depth)
    )
    bench.run_bench(model, tests, repeat=repetitions, batch=batch, device=device, form=form)


def main(argv: list[str] | None = None) -> None:
    """Entry point: exit status 2 and one line on standard error for anything that the user can mend."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an answer need not fit the terminal's encoding
    try:
        cli.main(args=argv, prog_name="spvk", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        fail(error.format_message())
    except SpvkError as error:
        fail(str(error))
    except click.Abort:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)


def fail(message: str) -> None:
    click.echo("spvk: " + " ".join(message.split()), err=True)
    sys.exit(2)
