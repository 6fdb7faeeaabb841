"""Tables of results as text: Markdown to read, LaTeX to print, CSV to compute with.

The one rule: the three say the same. A table is laid out once, in sections of rows of cells, and each format only
writes it down. Numbers are rounded in Markdown and LaTeX, and exact in the CSV.
"""

import dataclasses
import itertools
import math
import re

import polars as pl

NOTHING = "–"
"""Is printed where no run has a number."""
_DATASETS = {
    "california": "California",
    "house_16h": "House-16H",
    "cpu_act": "Cpu-act",
    "adult": "Adult",
    "bank": "Bank",
    "weather": "Weather",
    "acs_income": "ACS Income",
}
_METRICS = {
    "wd": "WD",
    "tvd1": "TVD (1-way)",
    "tvd2": "TVD (2-way)",
    "tvd2_quantile": "TVD (quantile)",
    "tvd3_quantile": "TVD (3-way, quantile)",
    "mmd": "MMD",
    "js": "JS",
    "correlation_max": "Correlation (max)",
    "correlation_mean": "Correlation (mean)",
    "rank_correlation": "Rank correlation",
    "cramers_v": "Cramér's V",
    "correlation_ratio": "Correlation ratio",
    "every": "Every column",
    "r2": "R²",
    "rmse": "RMSE",
    "f1": "F1",
    "auc": "AUC",
    "accuracy": "Accuracy",
    "structure/precision": "Precision of edges",
    "structure/recall": "Recall of edges",
    "structure/f1": "F1 of edges",
    "structure/hamming": "Hamming distance of edges",
    "structure/skeleton_f1": "F1 of undirected edges",
    "fit_s": "fit (s)",
    "peak_mb": "peak (MB)",
}
LEARNERS = {
    "catboost": "CatBoost",
    "mlp": "MLP",
    "random forest": "Random forest",
    "xgboost": "XGBoost",
    "svm": "SVM",
}
"""The learners in the order of their columns, with their titles."""
_WIDE = 8
"""A LaTeX table with more columns is scaled to the width of the page."""
_TIDY = {
    "dataset": pl.String,
    "epsilon": pl.Float64,
    "label": pl.String,
    "score": pl.String,
    "mean": pl.Float64,
    "sd": pl.Float64,
    "runs": pl.Int64,
    "rank": pl.Int64,
    "star": pl.Boolean,
    "source": pl.String,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """A mean over seeds; with its rank among the labels of its column, 1 being the best, where it takes part."""

    mean: float | None = None
    sd: float | None = None
    runs: int | None = None
    rank: int | None = None
    star: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A label's cells, one for each column. The remark stands behind the label in print."""

    label: str
    cells: list[Cell]
    epsilon: float | None = None
    remark: str = ""
    source: str = "ours"

    @property
    def name(self) -> str:
        return f"{self.label} ({self.remark})" if self.remark else self.label


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """Groups of rows with a rule between them, under a heading or none."""

    heading: str
    groups: list[list[Row]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """A table before it is written. A column is a data set and a score; those of a data set stand together."""

    name: str
    title: str
    columns: list[tuple[str, str]]
    sections: list[Section]
    notes: list[str]


def show(value: float | None) -> str:
    """A number as it is printed: three decimals, but no more than four significant digits if it is big."""
    if value is None:
        return NOTHING
    if abs(value) >= 1e7:
        return f"{value:.3e}"
    rounded = float(f"{value:.3e}")  # 9.9996 is 10.00 and not 10.000
    size = math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded if size > 0 else value:z.{min(3, max(0, 3 - size))}f}"


def dataset_title(dataset: str) -> str:
    name, comma, rest = dataset.partition(",")
    return _DATASETS.get(name, name) + comma + rest


def metric_title(score: str) -> str:
    """What a score measures, without the learner it was measured with."""
    metric = score.partition("/")[0]
    return _METRICS.get(score) or _METRICS.get(metric, metric)


def score_title(score: str) -> str:
    learner = "" if score in _METRICS else score.partition("/")[2]
    return f"{metric_title(score)} {LEARNERS.get(learner, learner)}".strip()


def by_dataset(columns: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """The data sets in order, each with its scores."""
    groups = itertools.groupby(columns, key=lambda column: column[0])
    return [(dataset, [score for _, score in group]) for dataset, group in groups]


def markdown(table: Layout) -> str:
    """The table for a README: sections and rules are rows, since Markdown has neither."""
    width = len(table.columns)
    header = [_escape_markdown(f"{dataset_title(dataset)} {score_title(score)}") for dataset, score in table.columns]
    rows = [["method", *header], ["---", *["---:"] * width]]
    for number, section in enumerate(table.sections):
        if section.heading:
            rows.append([f"**{_escape_markdown(section.heading)}**", *[""] * width])
        for place, group in enumerate(section.groups):
            if place or (number and not section.heading):
                rows.append(["———"] * (width + 1))
            rows += [[_escape_markdown(row.name), *map(_markdown_cell, row.cells)] for row in group]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    notes = [part for note in table.notes for part in ("", _escape_markdown(note))]
    return "\n".join([f"### {_escape_markdown(table.title)}", "", *lines, *notes]) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = show(cell.mean)
    marked = {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(cell.rank or 0, text)
    return marked + (r"\*" if cell.star else "")


def _escape_markdown(text: str) -> str:
    """The text with every character escaped that Markdown would act on."""
    return re.sub(r"([\\`*_|<\[\]])", r"\\\1", " ".join(text.split()))


def csv(table: Layout) -> str:
    """The table in tidy form: a line for each cell, numbers in full, empty where there is none."""
    rows = [row for section in table.sections for group in section.groups for row in group]
    lines = [
        (dataset, row.epsilon, row.label, score, cell.mean, cell.sd, cell.runs, cell.rank, cell.star, row.source)
        for row in rows
        for (dataset, score), cell in zip(table.columns, row.cells, strict=True)
    ]
    return pl.DataFrame(lines, schema=_TIDY, orient="row").write_csv()


def latex(table: Layout) -> str:
    """The table for a paper, with the rules of booktabs."""
    wide = len(table.columns) > _WIDE
    opening, closing = ([r"\resizebox{\textwidth}{!}{%"], ["}"]) if wide else ([], [])
    return "\n".join(
        [
            r"% \usepackage{booktabs,graphicx}",
            r"\begin{table*}[htbp]",
            r"\centering",
            r"\small",
            rf"\caption{{{_escape_latex(table.title)}}}",
            rf"\label{{tab:{table.name}}}",
            *opening,
            rf"\begin{{tabular}}{{@{{}}l{'c' * len(table.columns)}@{{}}}}",
            r"\toprule",
            *_latex_header(table),
            *_latex_body(table),
            r"\bottomrule",
            r"\end{tabular}" + ("%" if wide else ""),
            *closing,
            *[rf"\par\smallskip{{\footnotesize {_escape_latex(note)}\par}}" for note in table.notes],
            r"\end{table*}",
            "",
        ]
    )


def _latex_header(table: Layout) -> list[str]:
    groups = by_dataset(table.columns)
    titles = [
        rf"\multicolumn{{{len(scores)}}}{{c}}{{\textsc{{{_escape_latex(dataset_title(name))}}}}}"
        for name, scores in groups
    ]
    ends = list(itertools.accumulate((len(scores) for _, scores in groups), initial=1))
    rules = [rf"\cmidrule(lr){{{start + 1}-{end}}}" for start, end in itertools.pairwise(ends)]
    scores = [_escape_latex(score_title(score)) for _, score in table.columns]
    return [_latex_row(["", *titles]), " ".join(rules), _latex_row([r"\textbf{Method}", *scores])]


def _latex_body(table: Layout) -> list[str]:
    width = len(table.columns) + 1
    lines = []
    for section in table.sections:
        lines.append(r"\midrule")
        if section.heading:
            lines.append(rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{_escape_latex(section.heading)}}}}} \\")
        for place, group in enumerate(section.groups):
            lines += [rf"\cmidrule(lr){{1-{width}}}"] if place else []
            lines += [
                _latex_row([rf"\texttt{{{_escape_latex(row.name)}}}", *map(_latex_cell, row.cells)]) for row in group
            ]
    return lines


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _escape_latex(show(cell.mean)).replace("-", "$-$") if cell.mean is not None else "--"
    marked = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(cell.rank or 0, text)
    return marked + ("*" if cell.star else "")


_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "—": "---"}
    | {"²": "$^2$", "×": r"$\times$", "∞": r"$\infty$"}
    | {"ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "λ": r"$\lambda$", "γ": r"$\gamma$"}
)


def _escape_latex(text: str) -> str:
    """The text with every character escaped that LaTeX would act on or that its fonts lack."""
    return " ".join(text.split()).translate(_LATEX)
