"""Ray: the same bytes as here, whoever dies meanwhile, and nothing in the clear that Ray keeps.

All of it is slow: starting a cluster takes seconds.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false
# pyright: reportOptionalSubscript=false

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag

from understudy.core.randomness import Key
from understudy.core.ray_tasks import EngineError
from understudy.privacy import engines
from understudy.privacy.exact_counts import Marginal, MarginalCounts
from understudy.privacy.partitions import Derived, Held, KeptColumns, Read
from understudy.privacy.piecewise import Distribution, LevelScale
from understudy.privacy.ray_engine import Failure, Pass, RayEngine, decrypted, encrypted, levels, shipped
from understudy.privacy.row_maps import Clip, LevelBin, ValueBin
from understudy.privacy.scratch import Scratch
from understudy.privacy.sums import _Sum
from understudy.tables.structure import TableError

ROOT = Path(__file__).parents[2]
KEY = bytes(range(32))
on_a_cluster = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


# What a task is given and gives, without a cluster.


def test_what_goes_to_a_task_and_back_is_ciphertext():
    key, planted = os.urandom(32), np.full(1000, 77_777_777, np.int64)
    content = encrypted(key, {"Xanthippe": planted})
    assert b"Xanthippe" not in content and planted[:1].tobytes() not in content
    assert content != encrypted(key, {"Xanthippe": planted})
    np.testing.assert_array_equal(decrypted(key, content)["Xanthippe"], planted)


@pytest.mark.parametrize("at", [0, 12, -1])
def test_what_was_changed_on_its_way_is_not_read(at):
    key = os.urandom(32)
    content = bytearray(encrypted(key, [1, 2]))
    content[at] ^= 1
    with pytest.raises(InvalidTag):
        decrypted(key, bytes(content))


def test_a_task_gets_keys_that_open_one_stream_each():
    root = Key.new(5)
    scale = LevelScale(Distribution(np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    row_map = LevelBin("x", scale, np.array([0.0, 0.5, 1.0]), False, root.child("x"))
    part = Derived(Held({"x": np.array([np.nan] * 50)}, 0, 50), {"y": row_map})
    sent = levels([part])
    drawing = sent[0]["y"]
    assert isinstance(drawing, LevelBin) and drawing.key.entropy != root.entropy
    np.testing.assert_array_equal(Pass(Asked("y"), sent).of(shipped(part))[0], part.exact(["y"])["y"])


@dataclasses.dataclass(frozen=True)
class Asked:
    """A task that brings a column back as it is."""

    column: str

    def of(self, part):
        return [part.exact([self.column])[self.column]]


def test_a_task_gets_all_maps_of_a_partition_and_nothing_that_is_kept():
    """Maps on maps go with the pass, once for all partitions; the source goes by itself, without a scratch."""
    kept = KeptColumns(Scratch(), ["x"])
    source = Read(Columns({"x": np.arange(50.0) % 7}), 0, codes=kept)
    twice = Derived(Derived(source, {"y": Clip("x", 1.0, 5.0)}, kept), {"z": ValueBin("y", np.arange(9.0))}, kept)
    sent = decrypted(KEY, encrypted(KEY, Pass(_Sum(MarginalCounts([Marginal(("z",), (9,))])), levels([twice]))))
    assert isinstance(shipped(twice), Read) and shipped(twice).codes is None
    np.testing.assert_array_equal(sent.of(shipped(twice))[0], np.bincount(twice.exact(["z"])["z"], minlength=9))


@dataclasses.dataclass(frozen=True)
class Columns:
    """A reader of arrays."""

    columns: dict

    @property
    def rows(self):
        return len(next(iter(self.columns.values())))

    def read(self, names):
        return {name: self.columns[name] for name in names}


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (TableError("x.parquet cannot be read."), TableError, "x.parquet cannot be read."),
        (ValueError("Xanthippe"), EngineError, "a task of the Ray cluster failed (ValueError)."),
        (KeyError("Xanthippe"), EngineError, "a task of the Ray cluster failed (KeyError)."),
    ],
)
def test_an_error_comes_back_by_its_type_and_only_ours_with_its_message(error, kind, message):
    found = Failure.of(error).error()
    assert type(found) is kind and str(found) == message


@pytest.mark.slow
@on_a_cluster
def test_an_engine_is_never_written():
    with pytest.raises(TypeError, match="never written"):
        RayEngine().__reduce__()
    assert repr(engines.resolve("ray")) == "RayEngine()"


# A cluster.

FIT = """
    import sys, pathlib
    sys.path.insert(0, "tests")
    import numpy as np, polars as pl, ray, understudy as us
    from conftest import MIXED, QUICK
    from fits import planted
    from understudy.synthesizers import METHODS

    folder = pathlib.Path(sys.argv[1])
    method = METHODS[sys.argv[2]](**QUICK.get(sys.argv[2], {}))
    table = planted(400)
    if not (folder / "rows").exists():
        (folder / "rows").mkdir()
        for i in range(8):
            table[i * 50 : i * 50 + 50].write_parquet(folder / "rows" / f"{i}.parquet")
    def fit(**options):
        model = us.fit(folder / "rows", MIXED, method, epsilon=1.0, seed=3, progress=False, **options)
        model.save(folder / "model")
        return (folder / "model").read_bytes()
"""


def run(script, *given, timeout=400):
    """Runs a script that fits, in a process of its own with a cluster of its own; returns what it prints."""
    code = textwrap.dedent(FIT) + textwrap.dedent(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "RAY_ADDRESS": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, given)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@on_a_cluster
@pytest.mark.parametrize("method", ["copula", "prada"])
def test_a_fit_has_the_same_bytes_and_leaves_nothing_of_a_row_in_the_session_folder(method, tmp_path):
    """With objects so large that Ray would write them to disk, and values that are in one row alone."""
    session = Path("/tmp") / f"us{os.getpid()}{method}"  # sockets of Ray must have short names
    script = """
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                 _temp_dir=sys.argv[3], object_store_memory=80 * 2**20)
        assert fit(engine="ray") == fit()
        print("kept", ray.is_initialized())
        ray.shutdown()
    """
    assert "kept True" in run(script, tmp_path, method, session)
    content = b"".join(path.read_bytes() for path in session.rglob("*") if path.is_file() and not path.is_socket())
    assert len(content) > 1000  # there are logs
    for planted in (b"Xanthippe", b"Zinnober", b"123456.789", b"71.828", np.float64(123456.789012).tobytes()):
        assert planted not in content


DYING = """
    from understudy.privacy.ray_engine import RayEngine

    each, seen = RayEngine.each, []

    def dying(self, parts, task):
        "Every pass as ever; in the middle of the first of each kind, somebody dies."
        made, kind = each(self, parts, task), type(getattr(task, "summation", task)).__name__
        yield next(made)
        if kind not in seen and die():
            seen.append(kind)
        yield from made

    RayEngine.each = dying
"""
PASSES = {
    "copula": {"MarginalCounts", "SecondMoments", "_Categories"},
    "aim": {"MarginalCounts", "PairCounts", "_Categories"},
    "dp-merf": {"_EmbeddedRows"},
    "prada": {"MarginalCounts", "_Places"},
}


@pytest.mark.slow
@on_a_cluster
@pytest.mark.parametrize("method", list(PASSES))
def test_a_worker_that_is_killed_in_each_kind_of_pass_makes_no_difference(method, tmp_path):
    script = """
        import psutil

        def die():
            # Ray has processes of its own beside the workers.
            names = [(each.name(), each) for each in psutil.Process().children(recursive=True)]
            for wanted in ("ray::_work", "ray::IDLE"):
                for name, worker in names:
                    if name.startswith(wanted):
                        worker.kill()
                        return True

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        whole = fit()
        assert fit(engine="ray") == whole
        print("died in", *seen)
        ray.shutdown()
    """
    printed = run(textwrap.dedent(DYING) + textwrap.dedent(script), tmp_path, method)
    died = re.search("died in (.*)", printed)
    assert died and PASSES[method] <= set(died[1].split())


@pytest.mark.slow
@on_a_cluster
@pytest.mark.parametrize("method", ["copula", "prada"])
def test_nodes_that_are_lost_in_the_middle_of_passes_make_no_difference(method, tmp_path):
    script = """
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")

        def die():
            if nodes:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                return True

        whole = fit()
        assert fit(engine="ray") == whole
        print("lost", len(seen), "of", len(ray.nodes()), flush=True)
        ray.shutdown()
        cluster.shutdown()
    """
    printed = run(textwrap.dedent(DYING) + textwrap.dedent(script), tmp_path, method)
    lost = re.search(r"lost (\d) of 4", printed)
    assert lost and int(lost[1]) >= 2


@pytest.mark.slow
@on_a_cluster
def test_a_ray_dataset_gives_the_same_bytes_on_either_engine(tmp_path):
    """Its blocks go to tasks by reference, so that the process that fits need not have them."""
    script = """
        import ray.data

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        whole, paths = fit(), sorted(map(str, (folder / "rows").glob("*.parquet")))

        def same(dataset, **options):
            us.fit(dataset, MIXED, method, epsilon=1.0, seed=3, progress=False, **options).save(folder / "model")
            return (folder / "model").read_bytes() == whole

        from understudy.tables.ray_dataset import BlockPiece
        load, here = BlockPiece.load, []
        BlockPiece.load = lambda self, *given: here.append(1) or load(self, *given)
        blocks = ray.data.from_arrow([pl.read_parquet(each).to_arrow() for each in paths])
        print("here", same(blocks), len(here) > 8)
        here.clear()
        print("on the cluster", same(blocks, engine="ray"), len(here) <= 8)  # the survey reads each once
        try:
            us.fit(ray.data.from_items([{"x": 1}]), MIXED, method, epsilon=1.0)
        except ValueError as error:
            print(error)
        ray.shutdown()
    """
    printed = run(script, tmp_path, "copula")
    assert "here True True" in printed and "on the cluster True True" in printed
    assert "the Ray dataset has none of the columns that the schema names" in printed


@pytest.mark.slow
@on_a_cluster
def test_a_cluster_is_started_and_stopped_where_there_is_none_and_errors_name_the_file(tmp_path):
    script = """
        from understudy.tables.structure import TableError
        from understudy.privacy.ledger_file import LedgerFile
        charge = LedgerFile.charge

        def charge_and_lose(*given, **named):
            (folder / "rows" / "5.parquet").unlink()
            return charge(*given, **named)

        LedgerFile.charge = charge_and_lose
        try:
            fit(engine="ray", ledger=folder / "budget.jsonl")
        except TableError as error:
            print(error)
        print("running", ray.is_initialized())
    """
    printed = run(script, tmp_path, "independent")
    assert "5.parquet cannot be read" in printed and "stays charged" in printed and "running False" in printed
    assert "1 measurement had been released, and none after" in printed


# A database: what is joined here is counted there.

DATABASE = """
    from clinic import SCHEMA, clinic
    from understudy.tables import streaming, unit_links, unit_ranges

    streaming._LEAST_ROWS, streaming._SHARE, unit_ranges._RANGE, unit_links.BYTES = 70, 2**40, 2**18, 2**16
    schema = us.DatabaseSchema.parse(SCHEMA + 'columns.cost = { kind = "continuous", low = 0, high = 1000000 }')
    tables = clinic(250)
    given, costs = tables["prescriptions"], np.arange(tables["prescriptions"].height) % 90.0
    costs[7] = 123456.789012
    drugs = given["drug"].to_list()
    drugs[9] = "Xanthippe"
    tables["prescriptions"] = given.with_columns(cost=pl.Series(costs), drug=pl.Series(drugs))
    names = {who: f"Zinnober{who}" for who in tables["patients"]["id"].to_list()}
    for name, column in (("patients", "id"), ("visits", "patient")):
        tables[name] = tables[name].with_columns(pl.col(column).replace_strict(names))
        (folder / name).mkdir(exist_ok=True)
        for i in range(3):
            tables[name][i::3].sort(column).write_parquet(folder / name / f"{i}.parquet")
    sources = {name: folder / name for name in ("patients", "visits")} | {"prescriptions": tables["prescriptions"]}

    def fit(**options):
        model = us.fit(sources, schema, method, epsilon=2.0, seed=3, progress=False, **options)
        model.save(folder / "model")
        return (folder / "model").read_bytes()
"""


@pytest.mark.slow
@on_a_cluster
@pytest.mark.parametrize("method", ["independent", "prada"])
def test_a_database_has_the_same_bytes_and_leaves_nothing_of_a_row_in_the_session_folder(method, tmp_path):
    """Its joined rows are objects of ciphertext, and objects are written to disk since the store is small."""
    session = Path("/tmp") / f"ud{os.getpid()}{method}"  # sockets of Ray must have short names
    script = """
        from understudy.privacy.ray_engine import RayEngine

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                 _temp_dir=sys.argv[3], object_store_memory=80 * 2**20)
        whole, joined, sent = fit(), RayEngine._joined, {}

        def seen(self, part):
            found = joined(self, part)
            sent.update({str(each): each for each in found})
            return found

        RayEngine._joined = seen
        assert fit(engine="ray") == whole
        filler = [ray.put(np.zeros(2**23)) for _ in range(3)]  # pushes what is in the store to the disk
        print("partitions", len(sent))
        files = [path for path in pathlib.Path(sys.argv[3]).rglob("*") if path.is_file() and not path.is_socket()]
        spilled = [path for path in files if "spilled" in str(path)]
        content = b"".join(path.read_bytes() for path in files)
        planted = (b"Xanthippe", b"Zinnober", b"123456.789", np.float64(123456.789012).tobytes())
        print("spilled", len(spilled), "found", [each for each in planted if each in content])
        ray.shutdown()
    """
    printed = run(textwrap.dedent(DATABASE) + textwrap.dedent(script), tmp_path, method, session)
    partitions, spilled = (int(re.search(rf"{what} (\d+)", printed)[1]) for what in ("partitions", "spilled"))
    assert partitions > 6 and spilled > 0 and "found []" in printed


@pytest.mark.slow
@on_a_cluster
def test_a_worker_that_is_killed_while_units_are_summed_makes_no_difference(tmp_path):
    script = """
        import psutil

        def die():
            names = [(each.name(), each) for each in psutil.Process().children(recursive=True)]
            for wanted in ("ray::_work", "ray::IDLE"):
                for name, worker in names:
                    if name.startswith(wanted):
                        worker.kill()
                        return True

        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        whole = fit()
        assert fit(engine="ray") == whole
        print("died in", *seen)
        ray.shutdown()
    """
    printed = run(textwrap.dedent(DATABASE) + textwrap.dedent(DYING) + textwrap.dedent(script), tmp_path, "prada")
    died = re.search("died in (.*)", printed)
    assert died and {"_UnitProducts", "UnitCounts", "_UnitCategories", "MarginalCounts"} <= set(died[1].split())
