"""Which method? Four of them on the same simulated people, compared by distances and by the parents they learned.

    python examples/03_compare_methods.py

Choose on rows that may be looked at: simulated ones like these, or a public table like yours. Every fit of the
private table costs budget, and evaluating a model on the private table is covered by no budget at all.
"""

import understudy as us
from understudy.datasets import EXAMPLE_PARENTS, example, example_schema
from understudy.evaluation.evaluate import NOT_COVERED
from understudy.evaluation.structure import compare

METHODS = ("independent", "copula", "mst", "privbayes")
METRICS = ("wd", "tvd2_quantile", "correlation_max")


def main() -> None:
    schema, people, holdout = example_schema(), example(10_000), example(5_000, seed=1)
    models = us.fit_many(people, schema, METHODS, epsilon=1.0, delta=1e-6)

    print("Distances from rows that no method was fitted to; smaller is better.")
    print(NOT_COVERED)
    print(f"\n  {'method':<14}" + "".join(f"{metric:>17}" for metric in METRICS))
    floor: dict[str, float] = {}
    for name, model in zip(METHODS, models, strict=True):
        frame = us.evaluate(holdout, model.sample(10_000), schema, metrics=METRICS, train=people)
        whole = {row["metric"]: row for row in frame.to_dicts() if not row["columns"]}
        floor = {metric: whole[metric]["floor"] for metric in METRICS}
        print(f"  {name:<14}" + "".join(f"{whole[metric]['value']:>17.3f}" for metric in METRICS))
    print(f"  {'(real rows)':<14}" + "".join(f"{floor[metric]:>17.3f}" for metric in METRICS))

    print("\nLearned edges against the true network, ignoring directions; F1 = 1 means all true edges and no others.")
    for name, model in zip(METHODS, models, strict=True):
        edges = sum(len(parents) for parents in model.parents.values())
        found = compare(model.parents, EXAMPLE_PARENTS).skeleton_f1
        print(f"  {name:<14}{edges:>3} edges, F1 = {found:.2f}")

    print("\nSeven columns with a smooth network suit a copula well. Compare the methods on a table like yours.")


if __name__ == "__main__":
    main()
