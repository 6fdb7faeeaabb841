"""Commands, run within the test's process: what they print, and how they end."""

from click.testing import CliRunner

from understudy.cli import cli


def run(*arguments, answers=""):
    """The result of a command, with what is typed when it asks."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(cli, words, prog_name="understudy", input=answers)


def done(*arguments):
    """What a command prints that ends well and says nothing on stderr."""
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(*arguments, code=1):
    """What a command says on stderr that ends with this code."""
    result = run(*arguments)
    assert result.exit_code == code
    return result.stderr
