"""Plans a run: which wheels to split, their cost, and the groups of parts into which a large wheel is cut."""

from __future__ import annotations

import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from .names import WheelName, normalised
from .settings import Settings
from .store import Source, Store, describe

# Bytes per processor second, measured over the public wheels (docs/fleet.md): what every task of a wheel spends on all of its
# members (inflate, digests, the host part and its verification), and what compressing and verifying code costs in addition.
READING = 200e6
COMPRESSING = 300e6

# A key in the name of a device wheel.
_KEY = "(?:gfx|amdgcn)[a-z0-9_]*"


class Refused(Exception):
    """The run cannot begin."""


def sources(store: Store) -> tuple[list[Source], dict[str, str]]:
    """The wheels of SRC, each read with a few requests for its central directory; and why others cannot be split, by path."""
    paths = store.wheels()
    if not paths:
        is_there = any(sign in store.root for sign in "*?[") or store.fs.exists(store.root)
        raise Refused(f"{store.url(store.root)}: {'there is no wheel' if is_there else 'no such file or directory'}")

    def look(path: str) -> Source | str:
        try:
            return describe(store, path)
        except (OSError, ValueError) as error:
            return str(error)

    with ThreadPoolExecutor(16) as pool:
        found = dict(zip(paths, pool.map(look, paths)))
    wheels = [source for source in found.values() if isinstance(source, Source)]
    return wheels, {path: reason for path, reason in found.items() if isinstance(reason, str)}


def check_places(store: Store, destination: Store) -> None:
    """Refuses a DST whose outputs the next run would take for inputs."""
    source = store.root if not any(sign in store.root for sign in "*?[") else store.root.rpartition("/")[0]
    if type(store.fs) is type(destination.fs) and f"{destination.root}/".startswith(f"{source}/"):
        raise Refused(f"{destination.root}: DST is in SRC, where the next run would take its wheels for inputs")


def check_sources(store: Store, found: Iterable[Source], destination: Store) -> None:
    """Refuses wheels at or below DST: a host wheel has the name of its input, and would replace it."""
    if type(store.fs) is not type(destination.fs):
        return
    place = _real(destination, destination.root)
    for source in found:
        path = Store(source.url).root
        # A link in DST would be replaced, and a link elsewhere may lead there.
        links = (posixpath.join(_real(store, posixpath.dirname(path)), source.name), _real(store, path))
        if any(f"{link}/".startswith(f"{place.rstrip('/')}/") for link in links):
            raise Refused(f"{source.url} is in DST ({destination.root}), where outputs may replace it")


def check_outputs(found: Iterable[Source], settings: Settings, earlier: Iterable[str] = ()) -> None:
    """Refuses wheels whose splits would have files of the same name in DST. `earlier` wheels were split to DST before."""
    names = {source.url: WheelName(source.name) for source in found}
    hosts = {name.host for name in names.values()}
    names |= {f"{name} (in DST)": WheelName(name) for name in earlier if name not in hosts}
    # DST may be on a file system that ignores the case of names.
    owners: dict[str, str] = {}
    for url, name in names.items():
        for output in _outputs(name, settings):
            if (other := owners.setdefault(output.casefold(), url)) != url:
                advice = "leave one of them out" if output == name.host else "--per-wheel keeps them apart"
                raise Refused(f"{other} and {url} would both write {output}; {advice}")
    for url, name in names.items():
        # A wheel that is named as a device wheel of another one.
        output, is_device = re.subn(rf"_{_KEY}(?=-)", "_…", name.host.casefold(), count=1)
        if is_device and output in owners:
            raise Refused(f"{owners[output]} and {url} would both write {name.host}; --per-wheel keeps them apart")


def _outputs(name: WheelName, settings: Settings) -> list[str]:
    """The names of the files that a split writes next to those of other wheels."""
    if settings.per_wheel or settings.format == "thin-wheel":
        return [name.host]
    prefix = normalised(settings.value("--device-package-prefix") or f"amd-{name.distribution}-device")
    outputs = [name.host, f"{prefix}_…-{name.rest}.whl"]
    if label := settings.variant_label():
        outputs += [f"{name.distribution}-{name.rest}-{label}.whl", f"{name.distribution}-{name.version}-variants.json"]
    return outputs


def seconds(source: Source, code: Mapping[str, int] | None = None) -> float:
    """Estimate of the processor time that a wheel takes. Without `code`, half of the wheel counts as code."""
    amount = source.unpacked / 2 if code is None else sum(code.values())
    return source.unpacked / READING + amount / COMPRESSING


def may_be_cut(source: Source, share: float) -> bool:
    """Whether a wheel is worth inspecting: it might take more than a share.

    Of the public wheels, those with compressed code take up to 2.1 times what this estimate says in relation to the others.
    """
    return seconds(source) * 2 > share


def groups(source: Source, code: Mapping[str, int], share: float, most: int | None) -> list[tuple[str, ...]]:
    """The parts of a wheel in groups of about the same amount of code; one empty group stands for all parts together.

    `share` is the time that each worker has if all have the same, `most` the bytes of code of a group instead of that. Each group
    pays for reading the whole wheel, so it has to have more code than that is worth.
    """
    amount = sum(code.values())
    if most is not None:
        number = -(-amount // most)
    else:
        reading, compressing = source.unpacked / READING, amount / COMPRESSING
        number = 1
        if reading + compressing > share > 0:
            wanted = compressing / max(share - reading, reading)
            number = int(min(-(-wanted // 1), compressing // max(reading, 1e-9)))
    number = min(number, sum(bool(size) for size in code.values()))
    return balanced(code, number) if number > 1 else [()]


def balanced(costs: Mapping[str, int], number: int) -> list[tuple[str, ...]]:
    """Repeatedly puts the most expensive remaining item into the smallest group (LPT)."""
    amounts, members = [0] * number, defaultdict(list)
    for part in sorted(costs, key=lambda part: (-costs[part], part)):
        least = min(range(number), key=lambda place: (amounts[place], place))
        amounts[least] += costs[part]
        members[least].append(part)
    return [tuple(sorted(members[place])) for place in range(number) if members[place]]


def disk(source: Source, settings: Settings, is_fetched: bool, parts: int | None = None) -> int:
    """Estimate of the bytes that a task has on its worker's disk: the wheel and its outputs."""
    made = {"directory": source.unpacked, "wheel": 2 * source.size, "thin-wheel": source.size * (parts or 8)}
    return made[settings.format] + (source.size if is_fetched else 0)


def _real(store: Store, path: str) -> str:
    return os.path.realpath(path) if store.is_local else posixpath.normpath(path)
