"""`python -m spvk`."""

from .cli import main

main()
