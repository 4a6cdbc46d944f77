"""What looks at models and devices, and measures their speed: dump, inspect, devices, synth, bench, tune."""

from __future__ import annotations

import click

from .shared import BATCH, DEVICE, MODEL_PATH, cache_option, draft_option, precision_option


@click.command()
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
@precision_option("exact")
@cache_option()
@click.option("-o", "--output", required=True, metavar="OUT.npz")
def dump(model, tokens_file, positions_file, lookahead, batch, device, precision, cache_type, output):
    """Write a model's outputs to compare with another engine's.

    \b
    OUT.npz has, after the prompt and after each of N greedy tokens:
      logits [1+N, vocabulary], greedy [1+N],
      attn_rows_step0 ... attn_rows_stepN [attention layers, heads, keys]: softmax rows of the last token;
    and for the prompt:
      hidden [layers, width]: each layer's output for the last token,
      importance [tokens]: what the policy would start from.
    """
    from .. import job, outputs

    outputs.require_file("--output", output, None, (model, tokens_file, positions_file))
    job.run_dump(
        model,
        tokens_file,
        positions_file,
        lookahead=lookahead,
        batch=batch,
        device=device,
        precision=precision,
        cache=cache_type,
        output=output,
    )


@click.command()
@click.argument("model", type=MODEL_PATH)
def inspect(model):
    """Show what a GGUF file holds, needs no device.

    What would be skipped or repacked is said.
    """
    from .. import show

    show.print_model(model)


@click.command()
def devices():
    """List the Vulkan devices.

    The one that would be used is named, with the reason.
    """
    from .. import show

    show.print_devices()


@click.command()
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
    from .. import synth

    synth.run(size, out, seed=seed, weights=weights)


@click.command()
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
@precision_option()
@cache_option()
@click.option(
    "-o", "--output", "form", default="md", show_default=True, metavar="md|json|csv|jsonl", help="Format."
)
def bench(model, n_prompt, n_gen, n_depth, repetitions, batch, device, precision, cache_type, form):
    """Measure prefill and decode with llama-bench's columns and JSON names.

    Each test warms up once. Counts may be lists (128,512); 0 leaves a test out.
    """
    from .. import bench

    bench.require_format(form)
    tests = bench.plan(
        bench.read_counts("-p", n_prompt), bench.read_counts("-n", n_gen), bench.read_counts("-d", n_depth)
    )
    bench.run_bench(
        model,
        tests,
        repeat=repetitions,
        batch=batch,
        device=device,
        precision=precision,
        cache=cache_type,
        form=form,
    )


@click.command()
@click.option("-m", "--target", "--model", type=MODEL_PATH, metavar="GGUF", help="The model that answers.")
@draft_option("The small model that scores.")
@DEVICE
def tune(target, draft, device):
    """Measure which kernels are fastest on this device, and keep the answer for later runs.

    With a target and a draft their speeds are measured too: mode auto predicts by them.
    """
    from .. import show, tune

    with show.Screen() as screen:
        tune.run_tune(target, draft, device=device, screen=screen)
