"""What the README says of the real tables, on one split each; needs the folder that UNDERSTUDY_DATA names."""

import os

import numpy as np
import pytest

import understudy as us
from understudy import datasets

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "UNDERSTUDY_DATA" not in os.environ, reason="UNDERSTUDY_DATA does not name a folder with the real tables"
    ),
]


@pytest.mark.parametrize(("bounds", "most"), [(True, 3.0), (False, 6.0)])
@pytest.mark.parametrize("name", ["california", "house_16h"])
def test_margins_at_epsilon_1_are_near_the_floor(name, bounds, most):
    train, test = datasets.split(datasets.load(name), 20)
    schema = datasets.schema(name, bounds=bounds)
    model = us.fit(train, schema, "independent", epsilon=1.0, delta=1e-5, seed=20)
    found = us.evaluate(test, model.sample(len(train), seed=20), schema, metrics=["wd"], train=train)
    assert found["value"][0] < most * found["floor"][0]


@pytest.mark.parametrize("method", ["copula", "independent"])
@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("name", ["california", "house_16h", "cpu_act"])
def test_no_value_is_far_outside_the_real_range(name, epsilon, bounds, method):
    frame = datasets.load(name)
    train, _ = datasets.split(frame, 21)
    model = us.fit(train, datasets.schema(name, bounds=bounds), method, epsilon=epsilon, delta=1e-5, seed=21)
    made = model.sample(len(train), seed=21)
    for column in frame.columns:
        real, synthetic = frame[column].to_numpy(), made[column].to_numpy()
        assert np.ptp(real) > max(synthetic.max() - real.max(), real.min() - synthetic.min()), column


def test_adult_with_its_missing_values_and_categories_comes_back_in_its_domain():
    frame, schema = datasets.load("adult"), datasets.schema("adult")
    made = us.fit(frame, schema, epsilon=1.0, delta=1e-6, seed=0).sample(5_000, seed=0)
    assert made.columns == list(schema.names)
    for column in schema:
        if column.values is not None:
            assert set(made[column.name].drop_nulls()) <= {*column.values, column.other}
        assert column.nullable or made[column.name].null_count() == 0
    assert abs((made["workclass"].null_count() / 5_000) - frame["workclass"].null_count() / len(frame)) < 0.02
