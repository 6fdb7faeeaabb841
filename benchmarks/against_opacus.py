"""DP-SGD side by side with Opacus, on the paper's California shape: seconds, noise and clipped gradients.

n = 12 384 rows of 8 columns, a critic of widths [8, 4], batches of 50, 8000 critic steps, 10 to one of the generator.
On Opacus' side only the real half of a critic step is run (sample, forward, backward per row, clip, noise, step); on
ours all of it, generator and fakes included. Opacus and PyTorch are not dependencies: give the Python of an environment
of their own.

    python -m venv /tmp/opacus && /tmp/opacus/bin/pip install opacus
    python benchmarks/against_opacus.py --opacus /tmp/opacus/bin/python -o benchmarks/results/opacus.jsonl
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROWS, COLUMNS, BATCH, STEPS, EVERY = 12_384, 8, 50, 8000, 10
WIDTHS = (8, 4)


def theirs(steps: int) -> dict:
    """In the environment of Opacus: microseconds a step, its noise for some budgets, a clipped sum of gradients."""
    start = time.perf_counter()
    import opacus  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]
    from opacus.accountants.utils import get_noise_multiplier  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    critic = torch.nn.Sequential(
        torch.nn.Linear(COLUMNS, WIDTHS[0]),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(*WIDTHS),
        torch.nn.LeakyReLU(0.2),
        torch.nn.Linear(WIDTHS[1], 1),
    )
    weights = [p.detach().numpy().tolist() for p in critic.parameters()]
    data = torch.utils.data.TensorDataset(torch.randn(ROWS, COLUMNS))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    engine = opacus.PrivacyEngine()
    private, optimiser, loader = engine.make_private(
        module=critic,
        optimizer=torch.optim.SGD(critic.parameters(), lr=0.01),
        data_loader=loader,
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        poisson_sampling=True,
    )
    rows = torch.linspace(-2, 2, 20 * COLUMNS).reshape(20, COLUMNS)
    private(rows).sum().backward()
    optimiser.clip_and_accumulate()
    sums = [p.summed_grad.numpy().tolist() for p in private.parameters()]
    optimiser.zero_grad()
    ready = time.perf_counter()
    done = 0
    while done < steps:
        for (batch,) in loader:
            optimiser.zero_grad()
            (-private(batch).mean()).backward()
            optimiser.step()
            done += 1
            if done == steps:
                break
    step = (time.perf_counter() - ready) / steps
    noise = {
        str(epsilon): get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=1e-5,
            sample_rate=BATCH / ROWS,
            steps=STEPS,
            accountant="prv",
            epsilon_tolerance=epsilon / 500,
        )
        for epsilon in (0.2, 1.0, 5.0)
    }
    versions = {"opacus": opacus.__version__, "torch": torch.__version__}
    return {
        "step_us": 1e6 * step,
        "start_s": ready - start,
        "noise": noise,
        "weights": weights,
        "rows": rows.tolist(),
        "sums": sums,
        **versions,
    }


def ours() -> dict:
    """In a fresh process: seconds of a fit from import to end, and of a second one, which is compiled already."""
    start = time.perf_counter()
    import numpy as np
    import polars as pl

    import understudy as us

    draw = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{j}": draw.standard_normal(ROWS) for j in range(COLUMNS)})
    columns = tuple(us.Column(name=name, kind="continuous") for name in frame.columns)
    schema = us.Schema(name="speed", rows=ROWS, columns=columns)
    method = us.PradaGAN.paper("california", 1.0, critic_steps=STEPS, fakes=BATCH)
    us.fit(frame, schema, method, epsilon=1.0, delta=1e-5)
    cold = time.perf_counter() - start
    start = time.perf_counter()
    us.fit(frame, schema, method, epsilon=1.0, delta=1e-5)
    return {"cold_s": cold, "step_us": 1e6 * (time.perf_counter() - start) / STEPS}


def agreement(their: dict) -> dict:
    """The largest relative gaps between our noise and theirs, and between our clipped sums and theirs."""
    import jax.numpy as jnp
    import numpy as np

    from understudy.privacy.calibration import calibrate
    from understudy.privacy.clipping import Layer, clipped_sums
    from understudy.privacy.plan import Budget, PlannedMechanism
    from understudy.synthesizers.prada.adversarial.critic import critic_factors
    from understudy.synthesizers.prada.adversarial.layers import Dense

    noise = {}
    for epsilon, sigma in their["noise"].items():
        item = PlannedMechanism(
            name="s", mechanism="sampled gaussian", share=1.0, times=STEPS, sampling_rate=BATCH / ROWS
        )
        noise[epsilon] = item.noise_at(calibrate([item], Budget(epsilon=float(epsilon), delta=1e-5))) / sigma
    weights = [np.array(w, np.float32) for w in their["weights"]]
    critic = tuple(Dense(jnp.asarray(w.T), jnp.asarray(b)) for w, b in zip(*[iter(weights)] * 2, strict=True))
    rows = jnp.asarray(np.array(their["rows"], np.float32))
    ones = jnp.ones((1, len(rows)))
    layers = [Layer(jnp.concatenate([a.T, ones]), delta.T) for a, delta in critic_factors(critic, rows)]
    sums = clipped_sums(layers, jnp.ones((len(rows), 1), bool), jnp.float32(1.0))
    flat = [part for layer in sums for part in (np.asarray(layer[:-1]).T, np.asarray(layer[-1]))]
    gaps = [np.abs(a - np.array(b)).max() for a, b in zip(flat, their["sums"], strict=True)]
    return {"noise_ratio": noise, "largest_gap_of_clipped_sums": float(max(gaps))}


def measured(python: str, *arguments: str, **environment: str) -> dict:
    command = [python, __file__, *arguments]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return json.loads(shown.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--opacus", help="the Python of an environment with Opacus")
    parser.add_argument("--steps", type=int, default=1000, help="steps of Opacus")
    parser.add_argument("--theirs", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        return print(json.dumps(theirs(arguments.theirs)))
    if arguments.ours:
        return print(json.dumps(ours()))
    their = measured(arguments.opacus, "--theirs", str(arguments.steps))
    with tempfile.TemporaryDirectory() as cache:
        fresh = measured(sys.executable, "--ours", XDG_CACHE_HOME=cache)
        cached = measured(sys.executable, "--ours", XDG_CACHE_HOME=cache)
    whole = their["start_s"] + STEPS * their["step_us"] / 1e6
    result = {
        "rows": ROWS,
        "columns": COLUMNS,
        "batch": BATCH,
        "steps": STEPS,
        "opacus_step_us": their["step_us"],
        "opacus_cold_s": whole,
        "our_step_us": min(fresh["step_us"], cached["step_us"]),
        "our_cold_s": fresh["cold_s"],
        "our_cached_s": cached["cold_s"],
        "times_faster_compiled": their["step_us"] / min(fresh["step_us"], cached["step_us"]),
        "times_faster_cold": whole / fresh["cold_s"],
        "times_faster_cached": whole / cached["cold_s"],
        **agreement(their),
        "opacus": their["opacus"],
        "torch": their["torch"],
    }
    print(json.dumps(result, indent=2))
    with open(arguments.output, "w") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
