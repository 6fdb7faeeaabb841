"""Tables and methods of the adversarial tests, and fits of them that are made once."""

import dataclasses
import functools
from typing import Any

import numpy as np
import polars as pl

import understudy as us

# One small table and one shape of networks nearly everywhere: each further one takes seconds to compile.
SCHEMA = us.Schema(
    name="people",
    rows=400,
    columns=(
        us.Column(name="age", kind="continuous", low=-5.0, high=5.0),
        us.Column(name="colour", kind="categorical", values=("red", "green", "blue"), other="green"),
        us.Column(name="income", kind="continuous", low=-9.0, high=9.0, nullable=True),
        us.Column(name="member", kind="boolean"),
        us.Column(name="height", kind="continuous", low=-5.0, high=5.0),
    ),
)
NUMBERS = us.Schema(name="numbers", rows=400, columns=tuple(us.Column(name=n, kind="continuous") for n in "abc"))
SMALL: dict[str, Any] = {"critic_steps": 20, "batch_size": 50, "critic_widths": (8,)}
TINY = us.PradaGAN(**SMALL)
UNSTRUCTURED = us.DPGAN(**SMALL, widths=(8,))
NOISE = us.PradaGAN(**SMALL, noise_multiplier=2.0, standardised=True, threshold=0.345, decay=False)


def people(n=400, seed=0):
    """A number, a category and a nullable number that follow each other, and two columns by themselves."""
    draw = np.random.default_rng(seed)
    age = draw.standard_normal(n)
    colour = np.array(["red", "green", "blue"])[np.digitize(1.5 * age + draw.standard_normal(n), [-1.0, 1.5])]
    income = pl.Series(age + 0.5 * draw.standard_normal(n) + (colour == "blue"))
    return pl.DataFrame(
        {
            "age": age,
            "colour": colour,
            "income": income.set(pl.Series(draw.random(n) < 0.2), None),
            "member": draw.random(n) < 0.7,
            "height": draw.standard_normal(n),
        }
    )


def numbers(n=400, seed=0):
    """Three numbers of deviation about 1: the others explain little of a, more of b, and c best."""
    a, b, z = np.random.default_rng(seed).standard_normal((3, n))
    return pl.DataFrame({"a": a, "b": b, "c": 0.4 * a + 0.8 * b + 0.45 * z})


def changed(**settings):
    return dataclasses.replace(TINY, **settings)


FITS = {
    # The penalty and the finish, from one seed.
    "clip": (changed(threshold=0.2), 5, 10.0),
    "none": (changed(threshold=0.2, finish="none"), 5, 10.0),
    "two-step": (changed(threshold=0.2, finish="two-step"), 5, 10.0),
    "hopeless": (changed(penalty=1e6), 5, 10.0),
    "theory": (changed(penalty="theory"), 5, 10.0),
    "growing": (changed(penalty=1e-16, penalty_growth=40.0), 5, 10.0),
    "keep all": (changed(penalty=0.0, threshold=0.0), 5, 10.0),
    # Other things that may differ within one call.
    "plain": (TINY, 1, 10.0),
    "another seed": (TINY, 2, 10.0),
    "another budget": (TINY, 1, 1.0),
    "other rates": (changed(generator_rate=0.02, critic_rate=0.01, clip_norm=0.5), 1, 10.0),
    "fewer steps": (changed(critic_steps=15), 1, 10.0),
    "smaller batches": (changed(batch_size=25, fakes=50), 1, 10.0),
    "no average": (changed(average=0.0), 1, 10.0),
    "by counts": (us.Independent(), 1, 10.0),
    "no structure": (UNSTRUCTURED, 1, 10.0),
}


@functools.cache
def table() -> pl.DataFrame:
    return people()


@functools.cache
def fits() -> dict[str, us.Model]:
    """All of `FITS`, in one call."""
    methods, seeds, epsilons = zip(*FITS.values(), strict=True)
    return dict(zip(FITS, us.fit_many(table(), SCHEMA, methods, seeds, epsilon=epsilons), strict=True))


@functools.cache
def as_given(method: us.PradaGAN = NOISE) -> us.Model:
    """A fit to columns that came standardised, with given noise: batches of 50 of 400."""
    return us.fit(numbers(), NUMBERS, method, epsilon=10.0, delta=1e-5, seed=0)
