"""Other libraries on the tables of benchmarks/speed.py, each in a cold process of an environment of its own.

It is run by the Python of the peer, which need not have this library: what the schema says comes as JSON.

    PYTHON benchmarks/speed_peers.py dpmm-aim data.csv facts.json
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGES = {"dpmm": "dpmm", "opacus": "opacus", "smartnoise": "snsynth", "synthcity": "synthcity"}
"""What has to be importable for a peer."""

PEERS = {
    "dpmm-mst": "dpmm",
    "dpmm-privbayes": "dpmm",
    "dpmm-aim": "dpmm",
    "opacus": "opacus",
    "smartnoise-dpctgan": "smartnoise",
    "synthcity-dpgan": "synthcity",
}
"""What is fitted, and whose it is."""

EPSILON, DELTA, BATCH, STEPS = 1.0, 1e-6, 800, 500


def importable(python: str, package: str) -> bool:
    """Whether that Python has the package; it is looked for, not loaded."""
    look = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", look], capture_output=True).returncode == 0


def facts_of(schema: Any) -> dict[str, Any]:
    """The bounds and categories of a schema, as dpmm wants them; numbers without bounds lie within ±1000 here."""
    return {
        each.name: {"categories": list(each.values)}
        if each.values
        else {"lower": -1000.0 if each.low is None else each.low, "upper": 1000.0 if each.high is None else each.high}
        for each in schema.columns
    }


def fit_dpmm(frame: Any, facts: dict[str, Any], name: str) -> None:
    """A tenth of ε is for its own binning of numbers, the rest for the model."""
    from dpmm import pipelines  # pyright: ignore[reportMissingImports]

    pipeline = {"mst": "MSTPipeline", "aim": "AIMPipeline", "privbayes": "PrivBayesPipeline"}[name]
    numbers = any("lower" in each for each in facts.values())
    budget = {"epsilon": 0.9 * EPSILON, "proc_epsilon": 0.1 * EPSILON} if numbers else {"epsilon": EPSILON}
    model = getattr(pipelines, pipeline)(delta=DELTA, n_jobs=2, **budget)
    model.fit(frame, domain=facts, random_state=0)


def fit_opacus(frame: Any) -> None:
    """As many private steps of as many rows as `prada` makes, of a network with one hidden layer that copies a row."""
    import opacus  # pyright: ignore[reportMissingImports]
    import pandas as pd  # pyright: ignore[reportMissingImports]
    import torch  # pyright: ignore[reportMissingImports]

    rows = torch.tensor(pd.get_dummies(frame, dtype=float).fillna(0.0).to_numpy(), dtype=torch.float32)
    width = rows.shape[1]
    model = torch.nn.Sequential(torch.nn.Linear(width, 32), torch.nn.ReLU(), torch.nn.Linear(32, width))
    private, optimiser, loader = opacus.PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-4),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=BATCH),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )
    done = 0
    while done < STEPS:
        for (batch,) in loader:
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(private(batch), batch).backward()
            optimiser.step()
            done += 1
            if done == STEPS:
                break


def fit_smartnoise(frame: Any) -> None:
    from snsynth import Synthesizer  # pyright: ignore[reportMissingImports]

    Synthesizer.create("dpctgan", epsilon=0.9 * EPSILON).fit(frame, preprocessor_eps=0.1 * EPSILON)


def fit_synthcity(frame: Any) -> None:
    from synthcity.plugins import Plugins  # pyright: ignore[reportMissingImports]

    Plugins().get("dpgan", epsilon=EPSILON, delta=DELTA).fit(frame)


def main() -> None:
    import pandas as pd  # pyright: ignore[reportMissingImports]

    peer, rows, facts = sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    frame = pd.read_csv(rows, dtype={name: str for name, each in facts.items() if "categories" in each})
    if PEERS[peer] == "dpmm":
        fit_dpmm(frame, facts, peer.removeprefix("dpmm-"))
    else:
        {"opacus": fit_opacus, "smartnoise": fit_smartnoise, "synthcity": fit_synthcity}[PEERS[peer]](frame)


if __name__ == "__main__":
    main()
