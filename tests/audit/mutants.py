"""Mutants: the library with one privacy bug each, and the check of the audit that must catch it.

A mutant is a textual patch to a copy of the package. The copy is audited in a process of its own, as a user would audit
it. A patch whose text is no longer there fails, so that no mutant dies unnoticed.

`python tests/audit/mutants.py` runs all of them and writes the table of docs/audit.md; the names and checks in that
table are tested for freshness.
"""

import concurrent.futures
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "understudy"
PAGE = ROOT / "docs" / "audit.md"
BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"

SCHEMA = """\
name = "people"
unit = "who"
max_rows_per_unit = 3
[columns.age]
kind = "integer"
low = 0
high = 110
[columns.income]
kind = "continuous"
nullable = true
[columns.city]
kind = "categorical"
[columns.colour]
kind = "categorical"
values = ["red", "green", "blue"]
other = "else"
[columns.member]
kind = "boolean"
"""
AUDITED = """\
import sys, understudy
schema = understudy.Schema.parse(sys.argv[1], "mutants")
print(understudy.audit(schema, sys.argv[2], epsilon=1.0, delta=1e-5).to_json())
"""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        name: What is wrong.
        file: The file that is patched, below the package.
        old: The text that is replaced; it occurs once.
        new: What it is replaced by.
        method: The method that is audited.
        check: The check that must find it.
    """

    name: str
    file: str
    old: str
    new: str
    method: str
    check: str


GRADIENTS, COUNTS, NOISE = "privacy/gradients.py", "privacy/counts.py", "privacy/noise.py"
FUSED = "privacy/fused_counts.py"
LENGTH = "len(next(iter(rows._exact.values())))"

MUTANTS = [
    Mutant(
        "halved noise in the sampler",
        NOISE,
        "scale=sigma * steps)",
        "scale=sigma * steps / 2)",
        "independent",
        "sampler",
    ),
    Mutant(
        "halved noise in a marginal",
        COUNTS,
        "discrete_gaussian(sigma, exact_counts.size, key)",
        "discrete_gaussian(sigma / 2, exact_counts.size, key)",
        "mst",
        "noise",
    ),
    Mutant(
        "halved noise in the distribution of a column",
        FUSED,
        "discrete_gaussian(sigma, each.bins, each.key)",
        "discrete_gaussian(sigma / 2, each.bins, each.key)",
        "independent",
        "noise",
    ),
    Mutant(
        "continuous noise",
        NOISE,
        "    drawn = np.array(make_gaussian(*space, scale=sigma * steps)([0] * size), dtype=np.float64) / steps\n",
        "    drawn = np.random.default_rng().normal(0.0, sigma, size)\n",
        "independent",
        "sampler",
    ),
    Mutant(
        "noise from the key although it is secret",
        NOISE,
        "    if not key.secret:\n        seeded = np.rint",
        "    if True:\n        seeded = np.rint",
        "independent",
        "sampler",
    ),
    Mutant(
        "half the scale in a selection",
        "privacy/selection.py",
        "largest_with_gumbel(exact_dependences, scale, key)",
        "largest_with_gumbel(exact_dependences, scale / 2, key)",
        "privbayes",
        "noise",
    ),
    Mutant(
        "half the noise on gradients",
        "privacy/compiled_training.py",
        "            active = stack([numbers < each.rounds for each in trainings])\n",
        "            active = stack([numbers < each.rounds for each in trainings])\n"
        "            drawn = [each._replace(noise=(each.noise / 2).astype(each.noise.dtype)) for each in drawn]\n",
        "dpgan",
        "sampler",
    ),
    Mutant(
        "half the scale in every charge",
        "privacy/plan.py",
        "return self.noise_multiplier * self.sensitivity",
        "return self.noise_multiplier * self.sensitivity / 2",
        "independent",
        "noise",
    ),
    Mutant(
        "half the sensitivity of second moments",
        "privacy/moments.py",
        "sensitivity = clip_norm**2 * rows",
        "sensitivity = clip_norm**2 / 2 * rows",
        "copula",
        "sensitivity",
    ),
    Mutant(
        "half the sensitivity of a dependence",
        "privacy/selection.py",
        "return 2.0 * float(self.across.max()",
        "return 1.0 * float(self.across.max()",
        "privbayes",
        "sensitivity",
    ),
    Mutant(
        "half the sensitivity of pairs",
        "privacy/pair_selection.py",
        "return self.factors * products",
        "return self.factors * products / 2",
        "mst",
        "sensitivity",
    ),
    Mutant(
        "rows are not clipped",
        "privacy/moments.py",
        "factor = np.minimum(1.0, ",
        "factor = np.maximum(1.0, ",
        "copula",
        "sensitivity",
    ),
    Mutant(
        "gradients are not clipped",
        "privacy/clipping.py",
        "scale = jnp.minimum(1.0, ",
        "scale = jnp.maximum(1.0, ",
        "dpgan",
        "sensitivity",
    ),
    Mutant(
        "gradients of densities are not clipped",
        "privacy/density_training.py",
        "scale = np.minimum(np.float32(1.0), ",
        "scale = np.maximum(np.float32(1.0), ",
        "prada",
        "sensitivity",
    ),
    Mutant(
        "half the noise on the gradients of densities",
        "privacy/density_training.py",
        "rounded_sum(layer, part, grid.step)",
        "rounded_sum(layer, part // 2, grid.step)",
        "prada",
        "sampler",
    ),
    Mutant(
        "a batch statistic",
        "privacy/clipping.py",
        "of_unit = jnp.sum(norms, axis=-1, keepdims=True)",
        "of_unit = jnp.mean(jnp.sum(norms, axis=-1, keepdims=True), axis=-2, keepdims=True)",
        "dpgan",
        "sensitivity",
    ),
    Mutant(
        "a forgotten unit bound",
        "privacy/units.py",
        "    return np.sort(order[_places_in_unit(whose[order]) < most])",
        "    return np.sort(order)",
        "independent",
        "sensitivity",
    ),
    Mutant(
        "one row of a unit is charged",
        FUSED,
        "return float(rows.max_rows_per_unit) if self.unit_bound is None",
        "return 1.0 if self.unit_bound is None",
        "independent",
        "sensitivity",
    ),
    Mutant(
        "one row of a unit is charged for a marginal",
        COUNTS,
        'check_groups("noisy_counts", columns, shape, groups)\n    sensitivity = float(rows.max_rows_per_unit)',
        'check_groups("noisy_counts", columns, shape, groups)\n    sensitivity = 1.0',
        "mst",
        "sensitivity",
    ),
    Mutant(
        "a category counts once a row, not once a unit",
        COUNTS,
        "        exact_codes = units.distinct(unit[inside], exact_codes)\n",
        "",
        "independent",
        "sensitivity",
    ),
    Mutant(
        "an unpaid minimum",
        "encoding/fit.py",
        "                numeric[column.name] =",
        "                least = float(np.nanmin(np.clip(rows._exact[column.name], -1e9, 1e9))) - 1\n"
        "                if column.bounds[0] is None:\n"
        "                    column = __import__('dataclasses').replace(column, low=least)\n"
        "                numeric[column.name] =",
        "independent",
        "identical",
    ),
    Mutant(
        "an exact row count",
        COUNTS,
        "noisy = exact_count + float(discrete_gaussian(sigma, 1, key)[0])",
        "noisy = exact_count + 0.0 * float(discrete_gaussian(sigma, 1, key)[0])",
        "independent",
        "noise",
    ),
    Mutant(
        "the exact row count in the model",
        "encoding/fit.py",
        "    root = Round(np.array([total])",
        f"    total = float({LENGTH})\n    root = Round(np.array([total])",
        "independent",
        "identical",
    ),
    Mutant(
        "a label set taken from the rows",
        COUNTS,
        "named = (exact_counts > 0) & (counts >= limit)",
        "named = exact_counts > 0",
        "independent",
        "labels",
    ),
    Mutant(
        "a threshold without noise",
        COUNTS,
        "limit = alone + threshold(sigma, ledger.planned(planned).threshold_delta / most)",
        "limit = alone + 0.5",
        "independent",
        "labels",
    ),
    Mutant(
        "a reused key",
        "privacy/moments.py",
        'key.child("squares")',
        'key.child("products")',
        "copula",
        "streams",
    ),
    Mutant(
        "one stream of noise for all rounds of a training",
        "privacy/compiled_training.py",
        "draw_rounds(each.key, numbers,",
        "draw_rounds(each.key, 0 * numbers,",
        "dpgan",
        "sampler",
    ),
    Mutant(
        "a leaking exception",
        "privacy/partitions.py",
        "    rows = len(exact[0])\n    made = _block(",
        "    rows = len(exact[0])\n"
        "    if any(np.nanmax(each, initial=0.0) > 1e200 for each in exact):\n"
        '        raise ValueError(f"{row_map.sources} is too large: {max(map(np.nanmax, exact))}")\n'
        "    made = _block(",
        "independent",
        "messages",
    ),
    Mutant(
        "a warning about somebody's value",
        "privacy/partitions.py",
        '    with np.errstate(all="ignore"):\n        return {name: _made(',
        "    import warnings\n\n"
        '    with np.errstate(all="ignore"):\n'
        "        for values in below.values():\n"
        "            if np.nanmax(np.abs(values), initial=0.0) > 1e200:\n"
        '                warnings.warn("overflow encountered", RuntimeWarning, stacklevel=1)\n'
        "        return {name: _made(",
        "independent",
        "messages",
    ),
    Mutant(
        "a program as large as the table",
        GRADIENTS,
        "    capacity = max(job.capacity for job in jobs)\n",
        "    capacity = max(len(next(iter(job.rows._exact.values()))) for job in jobs)\n",
        "dpgan",
        "programs",
    ),
    Mutant(
        "a selection that is charged once and used twice",
        "privacy/selection.py",
        "    selected = largest_with_gumbel(exact_dependences, scale, key)\n",
        "    selected = largest_with_gumbel(exact_dependences, scale, key)\n"
        '    again = largest_with_gumbel(exact_dependences, scale, key.child("again"))\n'
        "    selected = max(selected, again, key=lambda i: exact_dependences[i])\n",
        "privbayes",
        "charges",
    ),
    Mutant(
        "a release that is not charged",
        COUNTS,
        '    sigma = ledger.charge(\n        planned, what="how many rows there are", '
        'sensitivity=sensitivity, mechanism="discrete gaussian"\n    )\n',
        "    sigma = ledger.noise(planned) * sensitivity\n",
        "independent",
        "charges",
    ),
    Mutant(
        "a scale below the calibrated one",
        "privacy/ledger.py",
        "self.scale = calibrate(self.plan, budget)",
        "self.scale = calibrate(self.plan, budget) / 1.5",
        "copula",
        "account",
    ),
    Mutant(
        "a filter that gives twice each share",
        "privacy/ledger.py",
        "math.sqrt(share / times)",
        "math.sqrt(2 * share / times)",
        "aim",
        "account",
    ),
    Mutant(
        "thresholds that take nothing of delta",
        "privacy/accounting.py",
        "math.fsum(times * delta for delta, times in thresholds.items())",
        "0.0",
        "independent",
        "account",
    ),
]


# Running -------------------------------------------------------------------------------------------------------------


def patched(mutant: Mutant, into: Path) -> Path:
    """A copy of the package with the mutant's patch; the folder to import it from.

    Raises:
        ValueError: The text of the patch is not there, or not once.
    """
    shutil.copytree(PACKAGE, into / "understudy", ignore=shutil.ignore_patterns("*.html.tmp"))
    target = into / "understudy" / mutant.file
    text = target.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: its text is {text.count(mutant.old)} times in {mutant.file}, not once.")
    target.write_text(text.replace(mutant.old, mutant.new))
    return into


def audited(source: Path, method: str, cache: Path) -> list[dict[str, str]]:
    """The findings of an audit with the package in this folder, in a process of its own."""
    settings = {
        "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]),  # the first one counts
        "XDG_CACHE_HOME": str(cache),
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", AUDITED, SCHEMA, method]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings}, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)["findings"]


def caught(mutant: Mutant) -> list[str]:
    """The checks that find a mutant, each once. The costs it computes are kept nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        source = patched(mutant, Path(folder) / "package")
        return sorted({each["check"] for each in audited(source, mutant.method, Path(folder) / "cache")})


def table(found: dict[str, list[str]]) -> str:
    """The table of docs/audit.md."""
    lines = ["| mutant | file | audited method | caught by |", "| --- | --- | --- | --- |"]
    for mutant in MUTANTS:
        others = [check for check in found[mutant.name] if check != mutant.check]
        checks = ", ".join([f"**{mutant.check}**", *others]) if mutant.check in found[mutant.name] else "NOT CAUGHT"
        lines.append(f"| {mutant.name} | `{mutant.file}` | `{mutant.method}` | {checks} |")
    return "\n".join(lines)


def main() -> None:
    """Runs all mutants, two at a time, and writes the table into the page."""
    names = set(sys.argv[1:])
    some = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = dict(zip([mutant.name for mutant in some], pool.map(caught, some), strict=True))
    for mutant in some:
        print(f"{mutant.name}: {', '.join(found[mutant.name]) or 'nothing'}; expected {mutant.check}")
    if not names:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
