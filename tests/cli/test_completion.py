"""Completion: shells are told commands, options, methods and where a file goes, at once."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import understudy as us
from understudy.cli import cli

HEAVY = ["dp_accounting", "jax", "narwhals", "numpy", "opendp", "polars", "rich", "scipy"]
PATH = os.pathsep.join(filter(None, sys.path))


def script(shell):
    result = CliRunner().invoke(cli, ["completion", shell], prog_name="understudy")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def completed(*words):
    """What a shell is told when the last word is to be completed."""
    *before, last = words
    return ShellComplete(cli, {}, "understudy", "_UNDERSTUDY_COMPLETE").get_completions(before, last)


def values(*words):
    return [item.value for item in completed(*words)]


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_methods_are_completed(command):
    assert sorted(values(command, "--method", "")) == sorted(us.METHODS)
    assert sorted(values(command, "--method", "priv")) == ["privbayes", "privmrf"]


def test_commands_and_options_are_completed():
    assert set(values("")) == set(cli.commands)
    assert values("ledger", "") == ["cap", "show"]
    assert values("fit", "--ep") == ["--epsilon"]
    assert "--processes" in values("bench", "grid.toml", "--") and "table" in values("bench", "")
    assert values("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("fit ", "file"),
        ("fit people.csv ", "file"),
        ("fit --ledger ", "file"),
        ("sample m.understudy -o ", "file"),
        ("evaluate a.csv b.csv s.toml --train ", "file"),
        ("ledger show ", "file"),
        ("bench ", "file"),
        ("bench table ", "dir"),
        ("demo -o ", "dir"),
    ],
)
def test_file_names_are_left_to_the_shell(words, kind):
    assert completed(*words.split(" "))[0].type == kind


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_accepts(shell):
    written = script(shell)
    assert "_UNDERSTUDY_COMPLETE" in written and f"{shell}_complete" in written
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=written, capture_output=True, text=True, timeout=20)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_another_shell_is_wrong_usage():
    result = CliRunner().invoke(cli, ["completion", "tcsh"], prog_name="understudy")
    assert result.exit_code == 2 and "'tcsh' is not one of" in result.stderr


def test_a_shell_that_asks_is_answered_without_an_import_that_takes_time():
    code = "from understudy.cli import main\ntry: main()\nexcept SystemExit: pass"
    code += f"\nimport sys; print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    asked = {"_UNDERSTUDY_COMPLETE": "bash_complete", "COMP_WORDS": "understudy fit --method ", "COMP_CWORD": "3"}
    environment = {**os.environ, "PYTHONPATH": PATH, **asked}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    *lines, loaded = shown.stdout.splitlines()
    assert set(lines) == {f"plain,{name}" for name in us.METHODS} and loaded == "loaded: []"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_itself_completes_a_method(tmp_path):
    program = tmp_path / "understudy"
    program.write_text(f"#!{sys.executable}\nfrom understudy.cli import main\nmain()\n")
    program.chmod(0o755)
    words = "COMP_WORDS=(understudy plan --method cop); COMP_CWORD=3"
    asked = f"{words}; _understudy_completion understudy; echo ${{COMPREPLY[*]}}"
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": PATH}
    command = ["bash", "-c", f"{script('bash')}\n{asked}"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (shown.stdout.strip(), shown.stderr) == ("copula", "")
