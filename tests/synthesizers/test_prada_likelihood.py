"""The method `prada`: settings and plan, what it measures and charges, and what its fits learn."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, QUICK, mixed_table, quick
from fitting import mixed_encoder, mixed_rows
from prada_densities import (
    COMPONENTS,
    ENCODER,
    HIDDEN,
    category,
    columns,
    encoder_of,
    every_pair,
    number,
    parts,
)
from understudy.core.randomness import Key
from understudy.datasets.simulators import simulate
from understudy.encoding.features import feature_rows
from understudy.evaluation.structure import compare
from understudy.privacy.densities import DensityLoop
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget, BudgetExceeded, PlannedMechanism
from understudy.synthesizers.aim import ROUNDS
from understudy.synthesizers.base import FitRequest
from understudy.synthesizers.planning import planned_mechanisms
from understudy.synthesizers.prada.likelihood import moments
from understudy.synthesizers.prada.likelihood.fit import LEAST_ALIKE, OWN_CONTRASTS, _Schedule, _Started
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity, public_levels
from understudy.synthesizers.prada.likelihood.method import Prada
from understudy.synthesizers.prada.likelihood.moments import (
    MOST_CATEGORIES,
    PARTS,
    MomentFeatures,
    measure_moments,
    moments_part,
)
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.reading import reading_of
from understudy.synthesizers.prada.likelihood.tilt import Tilted
from understudy.synthesizers.prada.likelihood.variables import variables_of
from understudy.synthesizers.prada.settings import drawn_rate, sampling_rate
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

# Settings and plan --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": -1}, "steps"),
        ({"steps": 30}, "multiple"),
        ({"rate": 0.0}, "rate"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": None}, "hidden"),
        ({"components": -1}, "components"),
        ({"most_parents": 0}, "most_parents"),
        ({"average": 1.5}, "average"),
        ({"distillation_steps": 0}, "distillation_steps"),
        ({"distillation_rate": 0.0}, "distillation_rate"),
        ({"encoding_share": 0.6}, "together"),
        ({"encoding_share": 0.4, "measured_share": 0.6}, "together"),
        ({"cut": 1}, "cut"),
        ({"order": "private"}, "order"),
        ({"encoding_share": 0.001}, "encoding_share"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"penalty": -1.0}, "penalty"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Prada(**settings)


def test_an_order_must_name_every_column():
    with pytest.raises(SchemaError, match="order"):
        Prada(order=("age",)).plan(MIXED)


def test_the_plan_is_the_whole_budget():
    method = Prada()
    assert sum(item.share for item in method.plan(MIXED)) == pytest.approx(1.0 - method.encoding_share)
    by_name = {item.name: item for item in method.plan(dataclasses.replace(MIXED, rows=1_000_000))}
    assert list(by_name) == [ROUNDS, "gradients"]
    assert by_name["gradients"].sampling_rate == pytest.approx(800 / 1e6)


def test_without_steps_no_gradients_are_planned():
    assert [item.name for item in Prada(steps=0).plan(MIXED)] == [ROUNDS]


def test_a_single_column_needs_its_distribution_alone():
    assert Prada().plan(Schema(columns=(MIXED["age"],))) == []


def test_the_target_is_generated_last_unless_the_schema_has_an_order():
    columns = tuple(Column(name=name, kind="continuous", low=0.0, high=1.0) for name in "abc")
    schema = Schema(name="t", columns=columns, target="a")
    assert Prada().order_for(schema) == ("b", "c", "a")
    assert Prada(order=("c", "a", "b")).order_for(schema) == ("c", "a", "b")
    assert Prada().order_for(dataclasses.replace(schema, order=("a", "c", "b"))) == ("a", "c", "b")
    assert Prada().order_for(dataclasses.replace(schema, target=None)) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "rows", "expected"), [(None, 12_000, 0.08), (None, 1e6, 0.0016), (1_000_000, 1e6, 0.0008)]
)
def test_batches_stay_small_however_many_rows_there_turn_out_to_be(given, rows, expected):
    schema = Schema(name="t", columns=(Column(name="a", kind="continuous", low=0.0, high=1.0),), rows=given)
    assert drawn_rate(Prada().batch_size, schema, rows) == pytest.approx(expected)
    assert drawn_rate(Prada().batch_size, schema, rows) <= sampling_rate(Prada().batch_size, schema)


# What it measures ---------------------------------------------------------------------------------------------------


def moments_at(epsilon, seed=0):
    """The moments of the mixed table, and the ledger that was charged for them."""
    planned = [PlannedMechanism(name=ROUNDS, mechanism="privacy filter", share=1.0)]
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), planned)
    share, facts = FilterShare(ROUNDS, 1.0), {"ledger": ledger, "key": Key.new(seed)}
    return measure_moments(mixed_rows(), mixed_encoder(), MIXED.names, share, **facts), ledger


def test_the_part_of_the_moments_follows_from_the_noise_within_bounds(monkeypatch):
    """In proportion to the square of the noise; never more than half, nor less than a fifth."""
    parts, whole = {}, FilterShare(ROUNDS, 1.0)
    for noise in (0.5, 2.0, 2.5, 40.0):
        planned = [PlannedMechanism(name=ROUNDS, mechanism="privacy filter", share=1.0)]
        ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), planned)
        monkeypatch.setattr(ledger, "noise", lambda *_, noise=noise: noise)
        parts[noise] = moments_part(mixed_encoder(), MIXED.names, whole, ledger=ledger, rows_per_unit=1)
    assert parts[0.5] == PARTS[0] and parts[40.0] == PARTS[1]
    assert PARTS[0] < parts[2.0] and parts[2.5] == pytest.approx(parts[2.0] * 1.25**2)


def locked_features(seed=0):
    """Exact features of the mixed table: (features, rows)."""
    f = MomentFeatures.of(mixed_encoder(), MIXED.names)
    locked = feature_rows(mixed_rows(), f.encoder, f.features, key=Key.new(seed), weightings=f.weightings)
    x = np.stack([locked._exact[feature.name] for feature in f.features])
    return (x - f.means[:, None]) * f.scales[:, None]


def exact_moments(clip_norm, seed=0):
    x = locked_features(seed)
    x = x * np.minimum(1.0, clip_norm / np.sqrt((x**2).sum(axis=0)))
    return x @ x.T / mixed_encoder().rows


def public_table():
    """The levels of the mixed table as those of a public one, and whether a value owns several of them."""
    levels, spread, encoder = {}, {}, mixed_encoder()
    for name in MIXED.names:
        levels[name] = public_levels(encoder, name, mixed_rows()._exact[name], mixed_rows()._exact_labels.get(name))
        values = encoder.columns[name].values(levels[name])
        below, above = encoder.columns[name].levels(values)
        spread[name] = above > below
    return levels, spread


def test_features_of_public_rows_are_those_of_locked_rows():
    """Where chance has no part in them: a value that owns an interval of levels gets a random one of it."""
    f, (levels, spread), locked = MomentFeatures.of(mixed_encoder(), MIXED.names), public_table(), locked_features()
    assert set(f.weightings) == {"age", "income", "weight", "joined"}
    for feature, own, exact in zip(f.features, f.of_levels(levels), locked, strict=True):
        certain = ~spread[feature.column] if feature.category is None else np.ones(len(own), bool)
        assert certain.mean() > 0.7 or feature.column == "age"  # whole numbers are all spread
        np.testing.assert_allclose(own[certain], exact[certain], atol=1e-4, err_msg=feature.name)


def test_facts_of_the_features_are_those_of_the_encoder():
    f = MomentFeatures.of(ENCODER, ["g", "a", "b", "d"])
    assert [(each.column, each.category) for each in f.features] == [
        *(("g", None), ("g", 1), ("a", None)),
        *(("b", category) for category in range(3)),
        *(("d", category) for category in range(3)),
    ]
    assert f.owners.tolist() == [0, 0, 1, 2, 2, 2, 3, 3, 3]
    shares = np.array([0.0, 0.3, 0.0, 0.5, 0.3, 0.2, 0.225, 0.675, 0.1])
    np.testing.assert_allclose(f.means, shares)
    np.testing.assert_allclose(f.variances, np.where(shares > 0, shares * (1 - shares), [0.7, *[1.0] * 8]))


def test_of_many_categories_the_most_common_have_features():
    f = MomentFeatures.of(encoder_of(category("x", np.r_[np.full(20, 1.0), np.full(20, 2.0)])), ["x"])
    assert [each.category for each in f.features] == list(range(20, 20 + MOST_CATEGORIES))


def test_moments_without_noise_to_speak_of_are_means_of_products_over_clipped_rows():
    found, _ = moments_at(1e6)
    np.testing.assert_allclose(found.means, exact_moments(found.clip_norm), atol=2e-3)


def test_moments_carry_the_noise_that_they_state():
    found = [moments_at(1.0, seed)[0] for seed in range(4)]
    gaps = np.array([each.means - exact_moments(each.clip_norm, seed) for seed, each in enumerate(found)])
    upper = np.triu_indices(gaps.shape[1], 1)
    assert np.std(gaps[:, *upper]) == pytest.approx(found[0].noise, rel=0.1)


def test_moments_are_charged_once():
    _, ledger = moments_at(1.0)
    [charge] = ledger.receipt().charges
    assert (charge.name, charge.mechanism, charge.times) == (ROUNDS, "discrete gaussian", 1)


@pytest.mark.slow
@pytest.mark.parametrize("spent", [ROUNDS, "gradients"])
def test_each_spent_mechanism_refuses_by_itself(spent):
    method, budget = Prada(**QUICK["prada"]), Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(MIXED, method, budget))
    if spent == ROUNDS:
        ledger.charge(FilterShare(ROUNDS, 1.0), what="spent", sensitivity=1.0, mechanism="discrete gaussian")
    else:
        ledger.charge(spent, what="spent", sensitivity=1.0, times=method.steps)
    with pytest.raises(BudgetExceeded):
        method.fit(mixed_rows(), mixed_encoder(), ledger=ledger, key=Key.new(0))


# The copula that the moments stand for --------------------------------------------------------------------------------


def dependent_levels(n=20_000, seed=0):
    """Levels of `ENCODER`'s columns a, b and g that follow each other, also in what is missing."""
    z = np.random.default_rng(seed).multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, n).T
    a, b, gone = ((np.argsort(np.argsort(each)) + 0.5) / n for each in z[:3])
    g, present = np.full(n, np.nan), gone >= 0.3
    g[present] = (np.argsort(np.argsort(z[3, present])) + 0.5) / present.sum()  # uniform among what is there
    return {"a": a, "b": b, "g": g}


def moments_of(levels, order, *, weighted=True, kept=1.0):
    """The moments of public rows without noise, of which clipping has left a part."""
    f = MomentFeatures.of(ENCODER, order)
    f = f if weighted else dataclasses.replace(f, weightings={})
    x = f.of_levels(levels).astype(float)
    return moments.NoisyMoments(features=f, means=kept * x @ x.T / x.shape[1], noise=1e-9, clip_norm=1e3), x


@pytest.mark.parametrize("kept", [1.0, 0.7], ids=["all", "clipped"])
def test_correlations_are_those_of_the_features_and_what_clipping_took_is_given_back(kept):
    found, x = moments_of(dependent_levels(), ["a", "b"], weighted=False, kept=kept)
    np.testing.assert_allclose(found.correlations[0], np.corrcoef(x)[0], atol=0.01)
    between = found.correlations[1:, 1:]
    assert between[0, 1] == pytest.approx(np.corrcoef(x)[1, 2], abs=0.1)  # one category excludes the others
    assert np.linalg.eigvalsh(found.correlations).min() > 0


def test_products_of_scores_that_follow_values_are_divided_by_their_loading():
    encoder = encoder_of(*(number(name, [0.0, 1.0, 100.0], [0.0, 0.95, 1.0]) for name in "xy"))
    f = MomentFeatures.of(encoder, ["x", "y"])
    loading = f.weightings["x"].loading
    assert loading < 0.95
    means = np.array([[1.0, 0.6 * loading**2], [0.6 * loading**2, 1.0]])
    found = moments.NoisyMoments(features=f, means=means, noise=1e-9, clip_norm=1e3)
    np.testing.assert_allclose(found.correlations[0, 1], 0.6, atol=1e-6)


def test_rows_of_the_copula_have_the_correlations_that_were_measured():
    found, x = moments_of(dependent_levels(), ["a", "b", "g"])
    drawn = found.copula_rows(20_000, np.random.default_rng(1))
    made = found.features.of_levels(drawn).astype(float)
    np.testing.assert_allclose(np.corrcoef(made), np.corrcoef(x), atol=0.05)
    assert abs(np.corrcoef(x)[0, 1:]).max() > 0.2
    assert np.isnan(drawn["g"]).mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(made.mean(axis=1), 0.0, atol=0.02)  # categories are taken about their shares
    ranks = np.sort(drawn["a"])
    np.testing.assert_allclose(ranks, (np.arange(20_000) + 0.5) / 20_000, atol=1e-4)


def test_rows_of_the_copula_have_rare_categories_too():
    encoder = encoder_of(category("x", 1.0 / np.arange(1, 31)), number("y", [0.0, 1.0], [0.0, 1.0]))
    f = MomentFeatures.of(encoder, ["y", "x"])
    means = np.diag(f.variances * f.scales**2)
    drawn = moments.NoisyMoments(features=f, means=means, noise=1e-9, clip_norm=1e3).copula_rows(
        20_000, np.random.default_rng(0)
    )
    codes = encoder.columns["x"].values(drawn["x"]).astype(int)
    shares = np.diff(encoder.columns["x"].distribution.cdf)
    np.testing.assert_allclose(np.bincount(codes, minlength=30) / 20_000, shares, atol=0.015)


# The private steps ----------------------------------------------------------------------------------------------------


def before_its_steps(**settings):
    """A fit of the mixed table with random weights, before its private steps."""
    encoder = mixed_encoder()
    variables = variables_of(encoder, MIXED.names)
    levels, _ = public_table()
    pool = Pool(levels, variables)
    codes = [
        state if v.states else (4 * levels[v.name]).astype(int) for v, state in zip(variables, pool.states, strict=True)
    ]
    read = reading_of(variables, pool.states, codes, np.ones(pool.count))
    made = columns(every_pair(7), read)
    method = Prada(hidden=HIDDEN, components=COMPONENTS, **settings)
    budget = Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(MIXED, method, budget))
    request = FitRequest(method=method, rows=mixed_rows(), encoder=encoder, ledger=ledger, key=Key.new(0))
    started = _Started(
        request=request,
        measured=None,
        moments=None,
        reading=read,
        predictions=[],
        columns=made,
        parts=parts(made, read),
        means=np.zeros(read.size),
        rows=pool.read(read),
        tilted=Tilted(np.ones(pool.count), 1.0),
    )
    return started, started.rows


def test_locked_rows_are_what_the_parts_read_of_public_rows():
    """For the same values, up to the random place of a whole number in its interval."""
    started, public = before_its_steps()
    locked, (_, spread) = started._locked(), public_table()
    compared = 0
    for part in started.parts:
        names = started._read_by(part)
        found = np.stack([locked._exact[name] for name in names])
        expected = part.rows(public).T
        assert found.shape == expected.shape
        for place, (name, one, other) in enumerate(zip(names, found, expected, strict=True)):
            if place == part.shape.features:  # the one, which the mechanism adds
                continue
            kind, _, column = name.partition(" ")
            state = public.states[MIXED.names.index(column)] if kind == "own" else None
            certain = ~spread[column] if kind in ("own", "seen") else np.ones(len(one), bool)
            certain = certain & (state == 0) if state is not None else certain  # of an atom it is not used
            np.testing.assert_allclose(one[certain], other[certain], atol=2e-4, err_msg=name)
            compared += certain.any()
    assert compared > 20


def test_a_row_adds_the_clipping_norm_to_all_columns_and_more_of_it_to_the_target():
    started, _ = before_its_steps(clip_norm=3.0)
    norms = started._clip_norms()
    assert np.sqrt((norms**2).sum()) == pytest.approx(3.0) and np.ptp(norms) == 0
    aimed = dataclasses.replace(mixed_encoder(), schema=dataclasses.replace(MIXED, target="member"))
    request = dataclasses.replace(started.request, encoder=aimed)
    norms = dataclasses.replace(started, request=request)._clip_norms()
    assert np.sqrt((norms**2).sum()) == pytest.approx(3.0)
    assert norms[5] == pytest.approx(started.settings.emphasis * norms[0])


@pytest.mark.parametrize(("effective", "own"), [(1.1 * LEAST_ALIKE, False), (0.9 * LEAST_ALIKE, True)])
def test_slopes_are_contrasted_with_draws_given_own_inputs_if_public_rows_are_unlike_them(monkeypatch, effective, own):
    started, _ = before_its_steps()
    monkeypatch.setattr(_Started, "_schedule", lambda *_: _Schedule([np.zeros(7)] * 7, 50.0, 0.01))
    job = dataclasses.replace(started, tilted=Tilted(started.tilted.weights, effective)).job()
    loops = [part.loop for part in job.parts if isinstance(part.loop, DensityLoop)]
    assert [loop.contrasts for loop in loops] == [OWN_CONTRASTS if own else 0] * len(job.parts)
    assert [part.state.contrast is None for part in job.parts] == [own] * len(job.parts)


def test_the_inputs_of_one_column_are_a_group():
    started, _ = before_its_steps()
    penalty = [np.linspace(0.1, 0.7, 7) + j for j in range(7)]
    owners = started.reading.owners
    for part in started.parts:
        numbers = started._for_part(part, _Schedule(penalty, 50.0, 0.01))
        assert (numbers.batch, numbers.rate) == (50.0, 0.01) and numbers.groups.shape == (
            part.shape.columns,
            part.shape.inputs,
        )
        for at, j in enumerate(part.members):
            sources = started.columns[j].sources
            amounts = numbers.penalty[at][numbers.groups[at]]
            np.testing.assert_allclose(amounts[: len(sources)], penalty[j][owners[sources]], rtol=1e-6)
            assert (numbers.groups[at][len(sources) :] == part.shape.inputs).all()
        assert not numbers.penalty[:, -1].any()


# Fits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nullable", [False, True])
def test_a_single_column_of_many_categories_has_its_shares(nullable):
    draw, labels = np.random.default_rng(0), [f"v{i:02}" for i in range(30)]
    chosen = draw.choice(labels, 3000, p=np.arange(1, 31) / 465)
    frame = pl.DataFrame({"x": chosen})
    frame = (
        frame.with_columns(x=pl.when(pl.Series(draw.random(3000) < 0.2)).then(None).otherwise("x"))
        if nullable
        else frame
    )
    schema = Schema(columns=(Column(name="x", kind="categorical", values=tuple(labels), nullable=nullable),))
    drawn = understudy.fit(frame, schema, "prada", epsilon=50.0, seed=0).sample(3000, seed=0)
    for label in [*labels[::6], None]:
        real, made = ((f["x"] == label if label else f["x"].is_null()).sum() / 3000 for f in (frame, drawn))
        assert made == pytest.approx(real, abs=0.02)


@pytest.mark.slow
def test_fits_made_together_are_those_made_alone():
    table, methods = mixed_table(1500), [quick("prada"), quick("prada"), dataclasses.replace(quick("prada"), rate=0.01)]
    together = understudy.fit_many(table, MIXED, methods, [0, 1, 2], epsilon=[1.0, 2.0, 1.0])
    for model, method, seed, epsilon in zip(together, methods, [0, 1, 2], [1.0, 2.0, 1.0], strict=True):
        alone = understudy.fit(table, MIXED, method, epsilon=epsilon, seed=seed)
        assert alone.parents == model.parents and alone.receipt.charges == model.receipt.charges
        for name, value in alone.generator.arrays().items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(model.generator.arrays()[name], value, atol=1e-3, err_msg=name)
            else:
                np.testing.assert_array_equal(model.generator.arrays()[name], value, err_msg=name)


@pytest.mark.slow
def test_without_steps_it_is_a_distilled_graphical_model():
    table = mixed_table(3000)
    model = understudy.fit(table, MIXED, dataclasses.replace(quick("prada"), steps=0), epsilon=20.0, seed=0)
    assert any("second moments" in charge.what for charge in model.receipt.charges)
    assert "gradients" not in {charge.name for charge in model.receipt.charges}
    drawn = model.sample(3000, seed=0)
    real, made = (np.corrcoef(frame["age"], frame["weight"])[0, 1] for frame in (table, drawn))
    assert made == pytest.approx(real, abs=0.1)


def simulated(n, seed=0):
    """A column that bends and splits with an earlier one, and one that is alone."""
    draw = np.random.default_rng(seed)
    a, alone = draw.standard_normal(n), draw.standard_normal(n)
    b = np.where(draw.random(n) < 0.5, 1.0, -1.0) * (1.0 + np.abs(a)) + 0.2 * draw.standard_normal(n)
    columns = tuple(Column(name=name, kind="continuous", low=-10.0, high=10.0) for name in ("a", "alone", "b"))
    return pl.DataFrame({"a": a, "alone": alone, "b": b}), Schema(name="bent", columns=columns, rows=n)


@pytest.mark.slow
def test_without_noise_to_speak_of_it_learns_what_a_copula_cannot():
    frame, schema = simulated(4000)
    model = understudy.fit(frame, schema, Prada(), epsilon=1e5, seed=0)
    assert model.parents["b"] == ["a"] and model.parents["alone"] == []
    drawn = model.sample(4000, seed=0)
    spread = [np.abs(f["b"].to_numpy())[np.abs(f["a"].to_numpy()) > 1.2].mean() for f in (frame, drawn)]
    assert abs(spread[0] - spread[1]) < 0.15
    fresh = simulated(2000, seed=1)[0]
    flat = fresh.with_columns(b=-pl.col("a"))
    assert model.log_density(fresh).mean() > model.log_density(flat).mean() + 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "equations"), [("erdos-renyi", "nonlinear"), ("scale-free", "linear")])
def test_it_finds_the_parents_of_simulated_columns(graph, equations):
    simulation = simulate(10_000, 6, graph=graph, equations=equations, degree=2, seed=0)
    schema = dataclasses.replace(simulation.schema, order=simulation.order, rows=10_000)
    model = understudy.fit(simulation.frame, schema, "prada", epsilon=5.0, delta=1e-5, seed=0)
    assert compare(model.parents, simulation.parents).f1 > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
def test_a_column_reads_what_is_no_parent_unless_it_is_cut(cut):
    """The correlated columns are parents; one that is alone is none, and is read if inputs are not cut."""
    frame, schema = simulated(3000)
    method = dataclasses.replace(quick("prada"), cut=cut, threshold=0.1)
    model = understudy.fit(frame, schema, method, epsilon=50.0, seed=0)
    assert isinstance(model.generator, FittedDensity)
    made, names = model.generator.densities, model.generator.names
    read = {
        name: [names[k] for k in np.unique(made.reading.owners[made.columns[j].sources])]
        for j, name in enumerate(names)
    }
    assert all(set(model.parents[name]) <= set(read[name]) for name in names)
    assert "alone" not in model.parents["b"]
    assert (read == model.parents) is cut


@pytest.mark.slow
def test_a_column_has_no_more_parents_than_it_may():
    draw = np.random.default_rng(0)
    common = draw.standard_normal(3000)
    frame = pl.DataFrame({f"c{i}": common + draw.standard_normal(3000) for i in range(6)})
    columns = tuple(Column(name=name, kind="continuous", low=-9.0, high=9.0) for name in frame.columns)
    method = dataclasses.replace(quick("prada"), most_parents=2, threshold=0.0)
    parents = understudy.fit(frame, Schema(columns=columns), method, epsilon=50.0, seed=0).parents
    assert [len(parents[f"c{i}"]) for i in range(6)] == [0, 1, 2, 2, 2, 2]


@pytest.mark.slow
def test_the_log_density_of_a_table(mixed):
    model = understudy.fit(mixed, MIXED, quick("prada"), epsilon=1e4, seed=0)
    table = mixed_table(200, seed=3)
    found = model.log_density(table)
    assert found.shape == (200,) and np.isfinite(found).all()
    assert np.array_equal(found, model.log_density(table))
    strange = table.with_columns(age=pl.lit(10**9), weight=pl.lit(float("nan")))
    assert np.isfinite(model.log_density(strange)).all()
