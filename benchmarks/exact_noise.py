"""What exact noise costs: the training of `prada` as it is, and with real-valued noise in floating point in its place.

Real-valued training is what version 0.1.0 did: normals by the inverse of their distribution function, from SHAKE-256,
added in float32 to sums that are added up in one piece. Both train the same networks of one fit, in turns, in one
process, and what is compared is processor time, which hardly depends on what else the machine does.

    python benchmarks/exact_noise.py --case numbers-20 --times 3
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import argparse
import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import ndtri

import understudy as us
from speed_tables import CASES
from understudy.privacy import batches, clipping, compiled_training
from understudy.privacy.ledger import Ledger
from understudy.synthesizers.prada.likelihood import fit as prada

EXACT = compiled_training.draw_rounds, compiled_training.add_noise, clipping.summation_blocks


class Measured(Exception):
    """The networks were trained often enough; the rest of the fit is left out."""


def real_rounds(key, numbers, rate, noise, units, *, part=0, steps, most, size):
    """Batches and noise as they were: float64 normals from SHAKE-256, rounded to float32."""

    def uniforms(label: str, number: int, count: int) -> np.ndarray:
        stream = hashlib.shake_256(f"{key.entropy} {label} {number} {part}".encode()).digest(8 * count)
        return ((np.frombuffer(stream, "<u8") >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    found, drawn, added = [], [], []
    for number in numbers.tolist():
        gaps = np.floor(np.log(uniforms("batches", number, steps * most).reshape(most, steps).T) / np.log1p(-rate))
        places = np.cumsum(np.minimum(gaps, units) + 1, axis=1) - 1
        drawn.append(places < units)
        found.append(np.where(drawn[-1], places, 0).astype(np.int32))
        normal = ndtri(uniforms("noise", number, steps * size))
        added.append((noise.sigma * normal).astype(np.float32).reshape(steps, size))
    keys = jax.random.split(jax.random.key(0), len(numbers))
    grid = np.full(len(numbers), noise.step, np.float32)
    return batches.Draws(np.stack(found), np.stack(drawn), np.stack(added), grid, keys)  # type: ignore


def use(draw_rounds: Callable[..., Any], add_noise: Callable[..., Any], blocks: Callable[..., int]) -> None:
    compiled_training.draw_rounds, compiled_training.add_noise, clipping.summation_blocks = (
        draw_rounds,
        add_noise,
        blocks,
    )
    jax.clear_caches()


def measured(jobs: Sequence[Any], planned: str, times: int) -> list[tuple[float, float]]:
    """Processor and wall seconds of so many trainings, after one that compiles."""
    found = []
    for _ in range(times + 1):
        fresh = []
        for job in jobs:
            entry = job.ledger.planned(planned)
            fixed = dataclasses.replace(entry, noise_multiplier=job.ledger.noise(planned))
            fresh.append(dataclasses.replace(job, ledger=Ledger(job.ledger.budget, [fixed])))
        start = time.process_time(), time.perf_counter()
        gradients.train(fresh, planned=planned, what="speed")
        found.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, default="numbers-20")
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    real = real_rounds, lambda exact, noise, step: exact + noise.reshape(exact.shape), lambda *_: 1
    seconds: dict[str, list[tuple[float, float]]] = {"exact": [], "real": []}

    def train(jobs: Sequence[Any], *, planned: str, **_: Any) -> None:
        for _turn in range(2):
            for name, parts in (("exact", EXACT), ("real", real)):
                use(*parts)
                seconds[name] += measured(jobs, planned, asked.times)
        raise Measured

    prada.train = train  # type: ignore
    frame, schema = CASES[asked.case].make()
    with contextlib.suppress(Measured):
        us.fit(frame, schema, "prada", epsilon=1.0, delta=1e-6, progress=False)
    best = {name: [min(each) for each in zip(*found, strict=True)] for name, found in seconds.items()}
    ratio = [exact / real for exact, real in zip(best["exact"], best["real"], strict=True)]
    print(json.dumps({"case": asked.case, "cpu_and_wall_s": best, "ratio": ratio, "all": seconds}))


if __name__ == "__main__":
    main()
