"""The command line: options in, one line for each mistake, no logic."""

from __future__ import annotations

import sys

import click

from .. import __version__
from ..errors import SpvkError
from . import evaluate, prefill, tools


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spvk")
def cli() -> None:
    """Sparse prefill for GGUF models: a draft model finds the tokens that matter, the target reads only those."""


for _command in (
    prefill.prefill,
    prefill.explain,
    prefill.demo,
    evaluate.evaluate,
    evaluate.calibrate,
    tools.dump,
    tools.inspect,
    tools.devices,
    tools.synth,
    tools.bench,
    tools.tune,
):
    cli.add_command(_command)


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
