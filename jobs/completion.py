"""`reput completion`: what a shell runs to complete reput's words."""

import argparse
import sys

from reput.jobs.console.options import DONE, show
from reput.jobs.console.voice import TABLE, add_output
from reput.store_format.faults import StoreError

_SHELLS = ("bash", "zsh", "fish")
_HELP = """\
Needs argcomplete (pip install "reput[completion]"). Once, for every shell that is started later:
  bash   echo 'eval "$(reput completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(reput completion zsh)"' >> ~/.zshrc
  fish   reput completion fish > ~/.config/fish/completions/reput.fish

examples:
  reput completion bash
  reput completion fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("shell", choices=_SHELLS, help="the shell that is to complete words")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's code. Raises StoreError where argcomplete is missing."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError:
        raise StoreError("argcomplete is missing: pip install 'reput[completion]'") from None
    code = shellcode(["reput"], shell=arguments.shell)
    if arguments.format == TABLE:
        sys.stdout.write(f"{code}\n")
    else:
        show(arguments, {"shell": arguments.shell, "code": code}, code)
    return DONE
