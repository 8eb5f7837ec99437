"""Makes conda packages by the recipe, and installs them into empty prefixes. Run in a clean root by scripts/check-recipes."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rattler import install, solve
from rattler.exceptions import SolverError
from rattler.index import index_fs
from rattler_build import assemble_package

WHEEL = next(Path("/shared/in").glob("cupy_rocm_7_0-*.whl"))
CHANNEL, THIN = Path("/shared/conda"), Path("/shared/conda-thin")
PREFIX = Path("/tmp/prefix")
SITE = PREFIX / "lib/python3.12/site-packages"


def fail(message):
    sys.exit(f"FAILED: {message}")


def build(channel, **environment):
    command = [sys.executable, f"{os.environ['RECIPES']}/conda/build", "cupy-rocm", "14.2.0", channel, WHEEL]
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if result.returncode:
        fail(result.stdout + result.stderr)


def stand_ins(channel):
    """A package that is required: there is no other channel."""
    assemble_package(name="python", version="3.12.0", target_platform="linux-64", build_string="0", output_dir=channel / "linux-64")
    asyncio.run(index_fs(channel))


def make_environment(channel, *specs):
    """Installs what is asked for, and removes what is not needed for it."""

    async def run():
        records = await solve([channel.as_uri()], list(specs))
        await install(records, PREFIX, show_progress=False)

    asyncio.run(run())


def check_refused(channel, *specs):
    try:
        asyncio.run(solve([channel.as_uri()], list(specs)))
    except SolverError:
        return
    fail(f"not refused: {specs}")


def check_conda_meta():
    """Each file is in one record, and is the one that the record states."""
    owners = Counter()
    for record in PREFIX.glob("conda-meta/*.json"):
        for path in json.loads(record.read_text())["paths_data"]["paths"]:
            file = PREFIX / path["_path"]
            owners[path["_path"]] += 1
            if path.get("path_type") != "softlink" and hashlib.sha256(file.read_bytes()).hexdigest() != path["sha256"]:
                fail(f"{file} is not that of {record.name}")
    files = {str(path.relative_to(PREFIX)) for path in PREFIX.rglob("*") if not path.is_dir()}
    # rattler itself writes these.
    files = {path for path in files if not path.startswith("conda-meta/")} - {"CACHEDIR.TAG"}
    if set(owners) != files or owners.most_common(1)[0][1] != 1:
        fail(f"files of no record: {files - set(owners)}; of two: {owners.most_common(3)}")


def kpackfs(*arguments):
    return subprocess.run(["kpackfs", *map(str, arguments)], capture_output=True, text=True)


def check(*gpus, without=()):
    check_conda_meta()
    result = kpackfs("verify", "--json", SITE)
    if result.returncode or json.loads(result.stdout)["findings"]:
        fail(f"verify: {result.stdout}{result.stderr}")
    for gpu in (*gpus, *without):
        result = kpackfs("why", SITE, "--target", gpu)
        if result.returncode != (gpu in without):
            fail(f"why --target {gpu}: {result.returncode}\n{result.stdout}{result.stderr}")


def check_split():
    build(CHANNEL, GPUS="gfx1030 gfx90a gfx1100")
    stand_ins(CHANNEL)
    print("== conda: two GPUs", flush=True)
    make_environment(CHANNEL, "cupy-rocm-gfx1030", "cupy-rocm-gfx90a")
    check("gfx1030", "gfx90a", without=["gfx1100"])
    print("== conda: a third one", flush=True)
    make_environment(CHANNEL, "cupy-rocm-gfx1030", "cupy-rocm-gfx90a", "cupy-rocm-gfx1100")
    check("gfx1030", "gfx90a", "gfx1100")
    make_environment(CHANNEL, "cupy-rocm-gfx1030", "cupy-rocm-gfx90a")
    check("gfx1030", "gfx90a", without=["gfx1100"])
    print("== conda: an upgrade", flush=True)
    build(CHANNEL, GPUS="gfx1030 gfx90a gfx1100", BUILD_NUMBER="1")
    check_refused(CHANNEL, "cupy-rocm[build_number=0]", "cupy-rocm-gfx1030[build_number=1]")
    make_environment(CHANNEL, "cupy-rocm-gfx1030", "cupy-rocm-gfx90a")
    check("gfx1030", "gfx90a", without=["gfx1100"])
    builds = {json.loads(path.read_text())["build_number"] for path in PREFIX.glob("conda-meta/cupy-*.json")}
    if builds != {1}:
        fail(f"upgraded to {builds}")


def check_thin():
    build(THIN, GPUS="gfx1030 gfx1030+gfx90a", THIN="yes")
    stand_ins(THIN)
    shutil.rmtree(PREFIX)
    print("== conda: thin", flush=True)
    make_environment(THIN, "cupy-rocm ==14.2.0 gfx1030_0")
    check("gfx1030", without=["gfx90a"])
    make_environment(THIN, "cupy-rocm ==14.2.0 gfx1030_gfx90a_0")
    check("gfx1030", "gfx90a")


check_split()
check_thin()
