"""Tables: what they stand for is exact, and what is drawn from them follows it."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy.alias_table import (
    DIGITS,
    ENDS,
    LEADING,
    PRECISION,
    AliasTable,
    gap_tables,
    gaussian_masses,
    gaussian_table,
    reach,
)

WHOLE = 1 << PRECISION


def probabilities(table):
    """The exact probability of each outcome, read from the table, as a whole multiple of 2^-192."""
    column = 1 << (PRECISION - table.bits)
    found = dict.fromkeys(range(len(table.thresholds)), 0)
    for j, (threshold, packed) in enumerate(zip(table.thresholds, table.packed.tolist(), strict=True)):
        assert packed >> LEADING == threshold >> (PRECISION - table.bits - LEADING)
        found[j] += threshold
        found[packed & (2**LEADING - 1)] += column - threshold
    return list(found.values())


@pytest.mark.parametrize("count", [1, 2, 3, 17, 64, 1000])
def test_a_table_has_exactly_the_weights_it_was_made_of(count):
    draw = np.random.default_rng(count)
    parts = [int(x) ** (1 + i % 3) for i, x in enumerate(draw.integers(1, 2**60, count))]
    weights = [(part << PRECISION) // sum(parts) for part in parts]
    weights[0] += WHOLE - sum(weights)
    found = probabilities(AliasTable.of(weights))
    assert found[:count] == weights and not any(found[count:])


@pytest.mark.parametrize("weights", [[WHOLE - 1], [WHOLE, 1], [-1, WHOLE + 1], [0] * 2**16 + [WHOLE]])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        AliasTable.of(weights)


@pytest.mark.parametrize("sigma", [0.7, 2.2, 40.3])
def test_a_gaussian_table_is_the_discrete_gaussian_but_for_its_ends(sigma):
    """In 400 bits: the total variation from the discrete Gaussian on all whole numbers is below 2^-142."""
    with mpmath.workprec(400):
        exponent = -1 / (2 * mpmath.mpf(sigma) ** 2)
        masses = [mpmath.exp(exponent * x * x) for x in range(int(30 * sigma) + 2)]
        for x, mass in enumerate(gaussian_masses(sigma)):
            assert abs(mpmath.ldexp(mass, -DIGITS) - masses[x]) < mpmath.ldexp(1, 50 - DIGITS)
        total, end = 2 * sum(masses[1:]) + 1, reach(sigma)
        found = probabilities(gaussian_table(sigma))
        gaps = [abs(mpmath.ldexp(found[end + x], -PRECISION) - masses[abs(x)] / total) for x in range(-end, end + 1)]
        outside = 2 * sum(masses[end + 1 :]) / total
        assert (sum(gaps) + outside) / 2 < mpmath.ldexp(1, -142)
    assert end >= ENDS * sigma


@pytest.mark.parametrize("rate", [1.0, 0.9, 0.04, 1e-3])
def test_gaps_are_geometric_to_the_last_digit(rate):
    low, high, length = gap_tables(rate)
    of_low, of_high = probabilities(low), probabilities(high)
    for gap in (0, 1, 2, 7, length - 1, length, length + 1, 3 * length + 2):
        quotient, remainder = divmod(gap, length)
        found = Fraction(of_low[remainder] * (of_high[quotient] if quotient < len(of_high) else 0), WHOLE * WHOLE)
        expected = Fraction(rate) * (1 - Fraction(rate)) ** gap
        assert abs(found - expected) < Fraction(1, 2**180)


@pytest.mark.parametrize("rate", [1e-17, 5e-324])
def test_gaps_of_tiny_rates_go_beyond_every_table_of_rows(rate):
    _, high, length = gap_tables(rate)
    assert (high.draw(Key.new(0).words(500).view(np.uint32), Key.new(1)) >= 2**31 // length).all()


def test_draws_follow_the_table():
    table, sigma = gaussian_table(9.7), 9.7
    found = table.draw(Key.new(0).words(200_000).view(np.uint32), Key.new(1)) - reach(sigma)
    places = np.arange(-reach(sigma), reach(sigma) + 1)
    expected = np.exp(-(places**2) / (2 * sigma**2))
    expected *= len(found) / expected.sum()
    counts = np.bincount(found + reach(sigma), minlength=len(places))
    common = expected > 20
    found, wanted = (np.append(each[common], each[~common].sum()) for each in (counts, expected))
    assert stats.chisquare(found, wanted).pvalue > 1e-4


def test_a_word_that_does_not_decide_gets_the_bits_that_follow():
    """Weight 2^-20 of two outcomes: the leading bits of its threshold are 0, so the rest must decide, one in eight."""
    table = AliasTable.of([WHOLE - (WHOLE >> 20), WHOLE >> 20])
    zeros = np.full(40_000, 1 << 31, np.uint32)  # the second column, and a fraction that begins with 16 zeros
    share = (table.draw(zeros, Key.new(0)) == 1).mean()
    assert abs(share - 2**16 / 2**19) < 5 * np.sqrt(0.125 * 0.875 / len(zeros))
    above = zeros + (np.uint32(1) << np.uint32(31 - LEADING))
    assert not table.draw(above, Key.new(0)).any()


def test_fewer_words_give_the_first_of_more():
    table, words = gaussian_table(300.0), Key.new(0).words(60_000).view(np.uint32)
    many = table.draw(words, Key.new(1))
    np.testing.assert_array_equal(table.draw(words[:50_001], Key.new(1)), many[:50_001])
    assert len(table.draw(words[:0], Key.new(1))) == 0
