"""Planning: what a budget means before a row is read, the ledger and its cap.

The one rule: every number comes from `pipeline.plan` and from the functions behind the report.
"""

import math
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from understudy.studio.opening import account_of, others_of
from understudy.studio.pages import changing, go, project_of, reading, sentence, show, without_style
from understudy.studio.projects import Project

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0)
DELTAS = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""Where the sliders stop; any other number can be typed."""
METHODS = {
    "prada": "the default: a small network for every column, trained by likelihood",
    "aim": "measures the marginals that matter, one after another; strong on categories",
    "mst": "a tree of pairs; quick, and good with many categories",
    "privmrf": "a Markov random field; for up to some twenty columns",
    "gem": "a generative network fitted to measured marginals",
    "privbayes": "a Bayes network of tables",
    "copula": "correlations of normal scores; the quickest with dependence",
    "dp-merf": "a generator fitted to a random embedding",
    "prada-gan": "the paper's adversarial training of prada",
    "dpgan": "one adversarial network; for comparison",
    "independent": "every column by itself, without dependence; the baseline",
}
"""The methods in one sentence each."""

WORDS = {
    "rows": "the number of rows",
    "find": "where the numbers lie",
    "resolve": "how numbers are distributed, coarsely",
    "refine": "how numbers are distributed, finely",
    "select": "which categories are frequent",
    "count selected": "how frequent they are",
    "count": "how frequent the listed categories are",
    "tree": "which columns belong together",
    "graph": "which columns belong together",
    "parents": "which columns explain which",
    "pairs": "pairs of columns",
    "tables": "several columns together",
    "moments": "correlations",
    "order": "the order of the columns",
    "embedding": "an embedding of all rows",
    "gradients": "training, by noisy gradients",
    "critic": "training of the critic, by noisy gradients",
    "critic again": "training of the second critic",
    "rounds": "marginals, chosen one after another",
    "marginals": "marginals, chosen one after another",
    "context": "what a row has from its parent",
}
"""What planned mechanisms measure, by their names; those of other names are chosen along the way."""
UNNAMED_TABLE = "The schema has no name, and a ledger goes by names. Describe the table again and give it one."


def words_for(name: str) -> str:
    """What a planned mechanism measures; one of a database is named after its table."""
    table, mark, own = name.rpartition(": ")
    return f"{table}{mark}{WORDS.get(own, own)}"


class ChoiceError(ValueError):
    """What was typed is no budget."""


def chosen(form: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Budget and method from a form.

    Raises:
        ChoiceError: A number is none.
    """
    found: dict[str, Any] = {"method": str(form.get("method", before["method"])), "strict": bool(form.get("strict"))}
    for key in ("epsilon", "delta"):
        typed = str(form.get(key, before[key])).strip()
        try:
            found[key] = float(typed)
        except ValueError:
            raise ChoiceError(f"{key}: expected a number, got {typed[:40]!r}.") from None
        if not math.isfinite(found[key]):
            raise ChoiceError(f"{key}: expected a finite number, got {typed[:40]!r}.")
    return found


@reading
def plan(request: Request) -> Response:
    """The page with the sliders; the numbers follow by themselves."""
    project = project_of(request)
    return show(request, "plan.html", **_page(request, project, project.choices))


@changing
def preview(request: Request, form: FormData) -> Response:
    """What a budget means: everything on the page but the sliders."""
    project = project_of(request)
    try:
        choices = chosen(form, project.choices)
        numbers = numbers_of(project, choices)
    except ValueError as error:  # no row is read here, so the error is about an argument
        return show(request, "parts/refused.html", said=sentence(str(error)))
    return show(request, "parts/plan.html", project=project, choices=choices, **numbers)


@changing
def keep(request: Request, form: FormData) -> Response:
    """Keeps what was chosen and leads on to the confirmation."""
    project = project_of(request)
    try:
        choices = chosen(form, project.choices)
        numbers_of(project, choices)
    except ValueError as error:
        return show(request, "plan.html", code=422, **_page(request, project, project.choices, sentence(str(error))))
    project.remember(choices=choices)
    return go(f"/p/{project.name}/fit")


@reading
def curve(request: Request) -> Response:
    """The pairs of ε and δ that hold at once, which take a moment to compute."""
    from understudy.report import drawing
    from understudy.report.privacy import profile_of

    project = project_of(request)
    try:
        choices = chosen(request.query_params, project.choices)
        made = _plan(project, choices)
    except ValueError as error:
        return show(request, "parts/refused.html", said=sentence(str(error)))
    points = profile_of(made.budget, made.charges)
    drawn = without_style(drawing.profile(points, made.budget.delta, "curve"))
    return show(request, "parts/curve.html", points=points, drawn=drawn, promised=made.budget.delta)


@changing
def cap(request: Request, form: FormData) -> Response:
    """Sets the cap on what may be spent on the table in all, as `understudy ledger cap` does."""
    from understudy.privacy.ledger_file import LedgerFile
    from understudy.tables.schema import Schema

    project = project_of(request)
    try:
        most = chosen({"epsilon": form.get("cap-epsilon", ""), "delta": form.get("cap-delta", "")}, project.choices)
        LedgerFile(project.ledger).set_cap(Schema.read(project.schema).name, most["epsilon"], most["delta"])
    except ValueError as error:
        return show(request, "plan.html", code=422, **_page(request, project, project.choices, sentence(str(error))))
    return go(f"/p/{project.name}/plan")


def _page(request: Request, project: Project, choices: Mapping[str, Any], wrong: str | None = None) -> dict[str, Any]:
    return {
        "project": project,
        "step": "plan",
        "choices": choices,
        "wrong": wrong,
        "epsilons": EPSILONS,
        "deltas": DELTAS,
        "methods": methods_for(project),
        "account": account_of(project),
        "others": others_of(request, project),
        "schema": schema_name(project),
    }


def methods_for(project: Project) -> dict[str, str]:
    """The methods that can be chosen; several tables need one that draws a row given its parent's."""
    stated = project.document
    if "tables" not in stated and not any(each.get("per_unit") for each in stated.get("columns", {}).values()):
        return METHODS
    from understudy.synthesizers.relational.planning import able_methods

    able = able_methods()
    return {name: about for name, about in METHODS.items() if name in able}


def schema_name(project: Project) -> str:
    from understudy.tables.schema import Schema

    return Schema.read(project.schema).name


def _plan(project: Project, choices: Mapping[str, Any]) -> Any:
    from understudy.pipeline import plan as plan_fit

    return plan_fit(project.schema, choices["method"], epsilon=choices["epsilon"], delta=choices["delta"])


def numbers_of(project: Project, choices: Mapping[str, Any]) -> dict[str, Any]:
    """What a fit with this budget would do, cost and show; no row is read."""
    from understudy.privacy.ledger_file import LedgerFile
    from understudy.privacy.plan import BudgetExceeded
    from understudy.report import drawing
    from understudy.report.privacy import attacker
    from understudy.tables.schema import UNNAMED

    made, table = _plan(project, choices), schema_name(project)
    shares = made.shares()
    bars = [{"what": words_for(item.name), "more": 0, "share": shares[item.name]} for item in made.items]
    if project.is_database:
        bars = [{"what": table, "more": 0, "share": share} for table, share in _by_table(shares).items()]
    sampled = any(item.sampling_rate for item in made.items)
    refused = UNNAMED_TABLE if table == UNNAMED else None
    try:
        LedgerFile(project.ledger).check(table, made.budget.epsilon, made.budget.delta)
    except BudgetExceeded as error:
        refused = sentence(str(error))
    return {
        "plan": made,
        "attacker": attacker(made.budget, gaussian=not sampled),
        "factor": math.exp(min(made.budget.epsilon, 700.0)),
        "bars": without_style(drawing.budget(bars, "shares")),
        "shares": shares,
        "words_for": words_for,
        "protected": _protected(project, made.unit),
        "refused": refused,
        "account": account_of(project),
        "table": table,
    }


def _by_table(shares: Mapping[str, float]) -> dict[str, float]:
    """The share of the budget that every table has."""
    found: dict[str, float] = {}
    for name, share in shares.items():
        table = name.partition(": ")[0]
        found[table] = found.get(table, 0.0) + share
    return found


def _protected(project: Project, unit: str) -> str:
    """What neighbouring tables differ by, as a person would say it."""
    if project.is_database:
        return f"row of {unit}, with all that hangs on it,"
    return "row" if unit == "row" else project.document.get("unit", unit)
