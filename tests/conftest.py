"""What all tests share: one random generator each, the data folder, steady examples."""

import os
import shutil
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from zlib import crc32

# Threads of OpenMP that wait for work keep a core busy, which another process of the tests needs:
# five files with boosted trees took 139 CPU seconds, and take 46.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pytest
from hypothesis import settings

for name, count in (("steady", 10), ("thorough", 40)):
    settings.register_profile(
        name, derandomize=True, deadline=None, max_examples=count, database=None
    )
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a law marked `sampled(n)` the quick run takes every n-th case, at least one, picked by
    its name. The long run adds cases until every two values of its parameters have met; what is
    left is slow."""
    laws = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is not None and hasattr(item, "callspec"):
            laws[item.path, item.cls, item.originalname, mark.args[0]].append(item)
    for (*_, one_in), cases in laws.items():
        met = set()
        for place, item in enumerate(sorted(cases, key=lambda item: crc32(item.name.encode()))):
            values = [(name, id(value)) for name, value in item.callspec.params.items()]
            pairs = set(combinations(values, 2))
            if place >= -(-len(cases) // one_in):
                item.add_marker("slow" if pairs and pairs <= met else "long")
            met |= pairs


@pytest.fixture
def rng():
    return np.random.default_rng(1410)


@pytest.fixture
def shared_file():
    """A function from a path in the shared data folder to the file; the test skips without it."""
    folder = Path(os.environ.get("TOPPUSH_SHARED", ROOT.parent / "shared"))

    def find(path):
        if not (folder / path).exists():
            pytest.skip(f"needs {path} of the shared data folder (../shared or TOPPUSH_SHARED)")
        return folder / path

    return find


@pytest.fixture(scope="session")
def client():
    """A Dask client of three workers in this process."""
    distributed = pytest.importorskip("distributed", reason="needs Dask, the extra [dask]")
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


@pytest.fixture
def one_torch_thread():
    """Torch's threads and those of other tests would wait for each other."""
    torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless chromium that keeps a log of what its pages say and ask for."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield window
    window.quit()
